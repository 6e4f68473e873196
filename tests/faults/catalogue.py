"""What may go wrong, and the tests that hold what then happens: one line per accident, in the words of an operator.

A name is "<file below tests>::<test>". test_catalogue.py sees to it that each of them exists.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Accident(NamedTuple):
    """Something that goes wrong."""

    what: str
    outcome: str
    tests: tuple[str, ...]


def _of(what: str, outcome: str, *tests: str) -> Accident:
    return Accident(what, outcome, tests)


CARRIED_OUT_LATE: Final = frozenset(
    {
        *(
            "cancel_tasks",
            "cancel_matching",
            "retry_tasks",
            "redrive",
            "register_lambdas",
            "set_lambda",
            "pause_lambda",
            "resume_lambda",
        ),
        *("set_gate", "lift_gate", "resume_key", "skip_key", "set_capacity", "drain_host"),
        *(
            "retry_batch",
            "schedule_job",
            "schedule_jobs",
            "delete_job",
            "delete_jobs_by_prefix",
            "pause_job",
            "resume_job",
        ),
    }
)
"""Calls of clients that say what shall be so, and not since when: a copy that comes long after others have undone it does it again."""

CATALOGUE: Final[tuple[Accident, ...]] = (
    # --- calls --------------------------------------------------------------------------------------------------------
    _of(
        "the answer to an RPC is lost: it was done, and its caller thinks that it was not",
        "the caller repeats it, and it counts once",
        "faults/test_calls.py::test_a_call_between_roles_may_go_astray",
        "faults/test_calls.py::test_a_client_s_call_may_go_astray",
        "controller/test_asks.py::test_a_call_that_broke_is_repeated_with_its_nonce_until_it_is_answered",
        "controller/test_asks.py::test_what_an_executor_did_not_acknowledge_is_handed_back_with_its_next_call",
        "executor/test_given_up.py::test_a_call_that_broke_has_its_nonce_given_up_and_the_next_one_does_not_wait_for_that",
        "executor/test_pipe.py::test_results_are_sent_again_until_they_are_answered_and_gather_meanwhile",
        "hsc/test_next_claims.py::test_any_hsc_knows_what_a_nonce_has_claimed",
    ),
    _of(
        "the answer to a call of the task store is lost",
        "the caller repeats it; what next_claims has claimed is found by the nonces of its asks",
        "faults/test_store_calls.py::test_the_answer_of_a_call_of_the_store_is_lost",
        "faults/test_store_calls.py::test_an_opening_of_the_store_may_fail_after_it_is_done",
        "store_consumer/test_consumer.py::test_an_id_that_was_popped_and_forgotten_is_enqueued_again",
    ),
    _of(
        "an RPC is delivered twice",
        "the second time changes nothing",
        "faults/test_calls.py::test_a_call_between_roles_may_go_astray",
        "faults/test_calls.py::test_a_client_s_call_may_go_astray",
        "executor/test_pipe.py::test_a_copy_of_an_answer_changes_nothing",
        "hsc/test_hsc.py::test_results_are_recorded_once_and_the_old_token_changes_nothing",
    ),
    _of(
        "an RPC is delivered late",
        "its token, number or id is old by then: it changes nothing. Only those of CARRIED_OUT_LATE can't be told from new ones",
        "faults/test_calls.py::test_a_call_between_roles_may_go_astray",
        "faults/test_late_calls.py::test_a_copy_of_a_client_s_call_that_arrives_late",
        "faults/test_late_calls.py::test_the_page_names_the_calls_that_are_carried_out_late",
        "faults/test_calls.py::test_a_schedule_that_arrives_when_its_task_is_done_makes_no_other",
        "faults/test_calls.py::test_a_copy_of_a_cancel_that_arrives_after_a_retry_cancels_once_more",
        "controller/test_asks.py::test_a_late_copy_of_a_call_asks_for_nothing",
    ),
    _of(
        "results arrive after the task was claimed anew",
        "LOST; the second run's result is the task's",
        "faults/test_roles.py::test_a_result_that_arrives_after_the_task_was_claimed_anew_changes_nothing",
        "executor/test_pipe.py::test_a_result_that_is_not_ours_any_more_is_dropped",
    ),
    # --- roles --------------------------------------------------------------------------------------------------------
    _of(
        "two store consumers come upon one id",
        "it is pushed once",
        "store/test_queues.py::test_two_store_consumers_in_a_row_push_an_id_once",
        "store_consumer/test_consumer.py::test_two_consumers_enqueue_each_task_once",
        "faults/test_roles.py::test_two_of_everything_share_the_work_and_give_nothing_twice",
    ),
    _of(
        "two HSCs take from one queue",
        "one function takes and claims: each gets other tasks",
        "faults/test_roles.py::test_two_of_everything_share_the_work_and_give_nothing_twice",
    ),
    _of(
        "a controller is killed before it passes claims on",
        "its executors give up the calls that broke: the tasks run at once, and no loss is counted",
        "faults/test_roles.py::test_a_controller_is_killed_before_it_passes_claims_on",
        "process/test_kills.py::test_claims_that_a_killed_controller_did_not_pass_on_are_back_within_two_seconds",
        "process/test_kills.py::test_a_role_is_killed_under_load",
    ),
    _of(
        "an executor dies before the lambda starts",
        "the task is handed back and counts nothing",
        "faults/test_roles.py::test_an_executor_dies_before_its_lambdas_start",
        "controller/test_delivery.py::test_each_claim_of_a_dead_executor_goes_the_way_of_its_state",
        "process/test_guard.py::test_what_a_dead_worker_held_is_told_by_its_state",
    ),
    _of(
        "an executor dies while the lambda runs",
        "the task runs again at once, with one loss",
        "faults/test_roles.py::test_an_executor_dies_in_the_middle_of_its_lambdas",
        "process/test_kills.py::test_a_worker_is_killed_and_its_tasks_run_again_at_once",
    ),
    _of(
        "a host is gone while lambdas run",
        "their leases end, and other hosts run them; of a chunk of a batch one item at a time, as before",
        "faults/test_roles.py::test_a_host_is_gone_in_the_middle_of_a_batch_s_chunks",
    ),
    _of(
        "an executor dies after the lambda and before the report",
        "the task runs again: at least once",
        "faults/test_roles.py::test_an_executor_dies_after_its_lambda_and_before_the_report",
    ),
    _of(
        "an executor is frozen or starved",
        "its guard kills it before a lease of it can end; it never goes on",
        "process/test_guard.py::test_a_frozen_or_starved_worker_is_killed_before_its_lease_ends",
        "process/test_kills.py::test_a_frozen_worker_never_goes_on_and_its_tasks_run_again",
        "executor/test_heartbeat.py::test_a_task_starts_only_with_enough_of_its_lease_left_and_a_heartbeat_comes_first",
        "executor/test_pipe.py::test_claims_that_arrive_when_their_lease_is_half_over_are_handed_back",
    ),
    _of(
        "an executor stands still with its host behind its lambda, before the report, beyond its lease",
        "what it reports when it is thawed is refused; the other run's result is the task's",
        "faults/test_roles.py::test_an_executor_is_frozen_behind_its_lambda_and_thaws_beyond_its_lease",
    ),
    _of(
        "the HSC is restarted",
        "away for less than three heartbeats nobody notices; for longer, executors end themselves in time",
        "faults/test_roles.py::test_the_hsc_is_restarted",
        "faults/test_roles.py::test_the_hsc_is_away_for_long",
        "executor/test_heartbeat.py::test_three_failures_in_a_row_end_the_process",
        "process/test_kills.py::test_a_role_is_killed_under_load",
    ),
    _of(
        "a role is told to end while it is busy",
        "what has started ends, the rest is given back; no attempt and no loss is counted",
        "process/test_kills.py::test_each_role_is_told_to_end_under_load",
        "process/test_kills.py::test_an_executor_is_told_to_end_under_load",
        "faults/test_roles.py::test_a_host_drains_while_its_controller_claims",
    ),
    # --- user code ----------------------------------------------------------------------------------------------------
    _of(
        "user code holds the interpreter lock",
        "no heartbeat leaves: the guard kills the process in time, and the task runs again",
        "process/test_guard.py::test_a_frozen_or_starved_worker_is_killed_before_its_lease_ends",
        "process/test_kills.py::test_native_code_that_holds_the_interpreter_lock_is_killed_in_time",
    ),
    _of(
        "user code blocks the event loop",
        "heartbeats go on: no lease is lost",
        "process/test_kills.py::test_a_blocked_event_loop_costs_no_lease",
    ),
    _of(
        "user code forks, or leaves processes behind",
        "the child ends, the parent goes on; what it leaves behind dies with the worker",
        "process/test_guard.py::test_a_worker_runs_both_kinds_of_lambdas_and_drains_when_told",
        "process/test_guard.py::test_what_a_lambda_started_is_gone_too",
        "process/test_children.py::test_a_signal_to_a_child_ends_the_child_and_not_the_executor",
        "process/test_children.py::test_what_children_of_lambdas_inherit_do_and_leave_behind",
        "process/test_children.py::test_a_daemon_that_a_lambda_made_is_gone_before_the_executor_counts_as_dead",
    ),
    _of(
        "user code exits or kills its process",
        "a loss; a dead letter after the third. sys.exit ends the run alone",
        "process/test_guard.py::test_a_worker_that_kills_itself_is_told_at_once",
        "process/test_guard.py::test_a_worker_runs_both_kinds_of_lambdas_and_drains_when_told",
        "process/test_kills.py::test_a_poison_task_ends_as_a_dead_letter_and_the_others_succeed",
        "process/test_isolated.py::test_each_run_has_a_process_of_its_own_and_ends_alone",
    ),
    _of(
        "user code fills the memory",
        "the process drains at max_rss_mib and is replaced; the guard kills it at max_rss_kill_mib",
        "process/test_guard.py::test_a_worker_that_takes_too_much_memory_drains_and_one_that_goes_on_is_killed",
        "executor/test_guard.py::test_memory_has_two_bounds",
        "controller/test_pool.py::test_the_successor_of_an_executor_that_drains_starts_at_once_beside_it",
    ),
    _of(
        "user code hangs past its timeout",
        "a coroutine is cancelled; a `def` that goes on is ended with its process, and never overlaps its retry",
        "executor/test_ends.py::test_a_coroutine_is_cancelled_at_its_timeout",
        "executor/test_ends.py::test_a_def_that_ignores_its_timeout_ends_the_process_and_the_table_says_so",
        "process/test_guard.py::test_a_def_that_ignores_its_timeout_is_told_as_timed_out_once_its_process_is_dead",
        "process/test_kills.py::test_a_def_that_ignores_its_timeout_never_overlaps_its_retry",
    ),
    _of(
        "a lambda raises",
        "an attempt; a dead letter at the last",
        "faults/test_races.py::test_what_a_lambda_does_wrong_ends_its_own_task_alone",
    ),
    _of(
        "a lambda returns what can't be encoded",
        "a dead letter that says so",
        "faults/test_races.py::test_what_a_lambda_does_wrong_ends_its_own_task_alone",
    ),
    _of(
        "a payload can't be decoded",
        "a dead letter that says so; the lambda never starts",
        "faults/test_races.py::test_what_a_lambda_does_wrong_ends_its_own_task_alone",
        "executor/test_pipe.py::test_a_claim_that_can_not_be_read_takes_no_other_along",
    ),
    _of(
        "a lambda is unknown",
        "refused by the frontend with the nearest names; where no executor has it, the task waits",
        "frontend/test_validation.py::test_an_unknown_lambda_is_refused_with_the_nearest_names",
        "faults/test_races.py::test_a_lambda_that_no_executor_knows_waits_and_takes_nobody_along",
        "executor/test_pipe.py::test_a_task_for_a_lambda_that_is_not_here_may_be_tried_elsewhere",
    ),
    _of(
        "a poison task among innocents",
        "a dead letter after three losses; of the others none is charged with more than one",
        "faults/test_roles.py::test_a_poison_task_among_innocents",
        "process/test_kills.py::test_a_poison_task_ends_as_a_dead_letter_and_the_others_succeed",
        "controller/test_delivery.py::test_of_several_suspects_in_a_dead_executor_none_is_charged",
        "executor/test_ends.py::test_a_task_with_one_loss_left_runs_alone",
    ),
    # --- the store ----------------------------------------------------------------------------------------------------
    _of(
        "the store is restarted",
        "work goes on when it is back; after H where it may have forgotten claims",
        "faults/test_store_calls.py::test_a_store_that_restarted_and_forgets_nothing_needs_no_pause",
        "store/test_errors.py::test_no_claims_for_one_lease_after_a_restart_unless_nothing_is_forgotten",
        "store/test_errors.py::test_a_real_restart_is_noticed",
        "process/test_kills.py::test_a_role_is_killed_under_load",
    ),
    _of(
        "the store fails over to a replica",
        "no claims for H, however durable the replica is",
        "store/test_errors.py::test_a_promoted_replica_gives_no_claims_for_one_lease_however_durable",
        "store/test_errors.py::test_a_replica_takes_no_writes_and_is_no_store",
    ),
    _of(
        "the store is full",
        "it takes no new tasks, and drains",
        "store/test_errors.py::test_a_full_store_takes_no_more_tasks_and_drains",
    ),
    _of(
        "the store is slow",
        "everything is slow; nothing is lost, and no executor ends itself",
        "faults/test_store_calls.py::test_every_third_call_of_the_store_fails",
        "faults/test_store_calls.py::test_every_call_of_the_store_is_slow_for_a_while",
    ),
    _of(
        "the store stands still",
        "within the tolerance nobody notices; beyond it executors end themselves, and their tasks run again",
        "faults/test_store_calls.py::test_a_store_that_stands_still",
        "store/test_errors.py::test_a_store_that_stalls_is_unavailable_and_its_late_answers_go_nowhere",
    ),
    _of(
        "the store answers with errors",
        "roles and clients try again",
        "faults/test_store_calls.py::test_every_third_call_of_the_store_fails",
        "store/test_errors.py::test_every_refusal_of_a_server_has_its_error",
        "store_consumer/test_consumer.py::test_a_partition_that_fails_is_tried_with_pauses_and_the_other_goes_on",
    ),
    _of(
        "the store is rolled back by a second",
        "forgotten claims are not given again before their executors have ended; tokens grow all the same",
        "faults/test_store_calls.py::test_the_store_is_rolled_back_by_a_second",
        "store/test_clock.py::test_a_store_that_forgot_a_claim_gives_a_larger_token",
        "store/test_errors.py::test_a_server_that_forgot_even_its_first_claim_is_noticed",
    ),
    _of(
        "the store's clock jumps",
        "no lease that is alive ends by it, and nothing starts early by it",
        "faults/test_store_calls.py::test_the_store_s_clock_jumps",
        "store_consumer/test_clock.py::test_whatever_the_store_s_clock_does_a_lease_renewed_under_it_outlives_its_length",
        "store_consumer/test_lease_ends.py::test_no_lease_ends_early",
        "store/test_clock.py::test_a_clock_that_goes_back_enqueues_nothing_early",
    ),
    _of(
        "a host's wall clock jumps",
        "roles measure with clocks that nobody sets: everything runs once, and on time by the store's clock",
        "faults/test_roles.py::test_the_wall_clocks_of_hosts_jump_and_come_back",
    ),
    _of(
        "a queue is wiped",
        "the store consumer fills it again",
        "faults/test_store_calls.py::test_a_wiped_queue_is_filled_again",
        "store/test_queues.py::test_a_wiped_queue_is_filled_again",
    ),
    _of(
        "whoever changes a lambda dies before every partition knows",
        "a store consumer delivers what is owed",
        "faults/test_store_calls.py::test_a_registration_that_died_half_way_reaches_every_partition",
        "store_consumer/test_consumer.py::test_what_a_partition_owes_is_delivered_and_retried_until_it_is",
    ),
    _of(
        "a backlog is older than every timeout",
        "each id stands in its queue once, and runs once",
        "faults/test_roles.py::test_a_backlog_older_than_every_timeout",
        "store/test_queues.py::test_a_backlog_older_than_every_timeout_grows_no_duplicates",
    ),
    # --- batches ------------------------------------------------------------------------------------------------------
    _of(
        "a client dies while it sends the items of a batch",
        "what came is stored; the batch is not taken for whole, and whoever goes on begins where it broke off",
        "frontend/test_batches.py::test_a_stream_that_breaks_off_is_not_the_whole_batch",
        "frontend/test_batches.py::test_who_goes_on_begins_at_the_prefix",
        "frontend/test_batches.py::test_a_gap_is_refused_since_the_batch_would_never_end",
        "frontend/test_batch_writer.py::test_where_the_caller_is_gone_nothing_is_left_under_way",
    ),
    _of(
        "the items of a batch are sent twice",
        "each is stored once, those that are identical each in its place",
        "frontend/test_batches.py::test_the_same_call_again_stores_nothing_twice",
        "frontend/test_batches.py::test_each_of_a_thousand_identical_items_has_its_own_id",
        "frontend/test_batches.py::test_an_extension_adds_items_behind_those_there_are",
        "faults/test_calls.py::test_a_client_s_call_may_go_astray",
    ),
    _of(
        "a partition is away while items of a batch come",
        "the call fails and seals nothing; what is stored without a gap is noted",
        "frontend/test_batch_writer.py::test_a_partition_that_is_away_ends_it_and_what_the_others_have_begun_is_done",
        "frontend/test_batches.py::test_where_the_store_fails_nothing_is_sealed_and_the_prefix_is_noted",
    ),
    _of(
        "a frontend ends while a batch is sent or watched",
        "its callers go on at another one",
        "frontend/test_batches.py::test_a_frontend_that_ends_sends_its_callers_to_another_one",
        "frontend/test_batches.py::test_a_frontend_that_ends_ends_its_streams",
    ),
    _of(
        "a store consumer dies while it cancels or retries a batch",
        "another one goes on where it was",
        "store/test_batches.py::test_a_command_that_was_cut_off_goes_on_where_it_was",
    ),
    _of(
        "the server that counts a batch has forgotten a report",
        "it asks again, and the batch ends",
        "store/test_batches.py::test_a_home_that_has_forgotten_what_it_heard_asks_again",
    ),
    # --- two at once --------------------------------------------------------------------------------------------------
    _of(
        "cancel against claim",
        "cancelled before: the claim is LOST. Claimed before: the next heartbeat stops it",
        "faults/test_races.py::test_cancel_against_claim",
        "faults/test_races.py::test_claim_against_cancel",
        "process/test_kills.py::test_a_running_task_is_cancelled",
    ),
    _of(
        "cancel against finish",
        "a success stays a success; a failure after the cancel is its end",
        "faults/test_races.py::test_cancel_against_finish",
        "faults/test_races.py::test_cancel_against_failure",
    ),
    _of(
        "cancel against loss",
        "a flagged task that is lost is cancelled, and does not run again",
        "faults/test_races.py::test_cancel_against_loss",
    ),
    _of(
        "retry against cancel",
        "the later one decides; a retried task carries no flag of its former life",
        "faults/test_races.py::test_retry_against_cancel",
        "faults/test_races.py::test_cancel_against_retry",
    ),
    _of(
        "drain against claim",
        "claims that come while it drains are handed back, popped ids too",
        "controller/test_asks.py::test_claims_that_come_at_the_moment_of_a_withdrawal_are_handed_back",
        "controller/test_asks.py::test_a_drain_withdraws_all_asks_and_gives_their_nonces_up",
        "faults/test_roles.py::test_a_host_drains_while_its_controller_claims",
        "executor/test_ends.py::test_drain_hands_back_what_has_not_started_and_waits_for_the_rest",
    ),
)
