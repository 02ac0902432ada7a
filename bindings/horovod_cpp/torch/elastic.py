"""Not available yet; says so."""

raise ImportError("horovod_cpp has no elastic jobs yet (hvd.elastic): a job ends when a rank does. "
                  "Start it again from a checkpoint; see rank_zero_section() and "
                  "broadcast_parameters()")
