"""What takes minutes is for test/run.sh --long, and is not even collected without it."""

import os

collect_ignore = [] if os.environ.get("HVD_TEST_LONG") else ["test_soak.py", "test_kills.py"]
