"""The frontend: checks what callers send, then calls one verb of the task store, then words the answer.

It keeps nothing that another frontend would need. Implements atf.rpc.api.Frontend; `timeout` is the transport's matter.
"""

from __future__ import annotations

from atf.auth.caller import permit
from atf.auth.grants import Verb
from atf.config.dapr_names import DELIVER, check_app_id
from atf.errors import NotFound
from atf.rpc import frontend_pb2 as f

from .batch_intake import ScheduleBatchRpc
from .batches import BatchRpcs
from .cancel_matching import CancelMatchingRpc
from .hosts import HostRpcs
from .keys import KeyRpcs
from .list_audit import AuditRpc
from .list_failures import FailureRpc
from .logs import LogRpcs
from .redrive import RedriveRpc
from .registration import LambdaRpcs
from .status import StatusRpc
from .tasks import TaskRpcs
from .tokens import TokenRpcs
from .validate import shown


class FrontendService(
    TaskRpcs,
    LogRpcs,
    KeyRpcs,
    ScheduleBatchRpc,
    BatchRpcs,
    LambdaRpcs,
    CancelMatchingRpc,
    RedriveRpc,
    AuditRpc,
    FailureRpc,
    HostRpcs,
    StatusRpc,
    TokenRpcs,
):
    """The scheduling service: each RPC is a method of the class of its subject."""

    async def find_dapr_app(self, request: f.FindDaprAppRequest, *, timeout: float = 10) -> f.FindDaprAppReply:
        """Where an application that was written for Dapr listens."""
        permit(Verb.WORK, DELIVER)  # for its executors: others need not know who listens where
        address = self._settings.dapr_apps.get(check_app_id(shown(request.app_id)))
        if address is None:
            raise NotFound(
                f"no address is set for the app {request.app_id!r}: start the frontend with --dapr-app"
                f" {request.app_id}=HOST:PORT (or ATF_DAPR_APP, or `dapr_app` in atf.toml)"
            )
        return f.FindDaprAppReply(address=address)
