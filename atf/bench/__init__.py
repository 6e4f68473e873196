"""`atf bench`: how fast and how prompt this cluster of roles is on a store, by figures that anybody can take again."""
