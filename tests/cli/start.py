"""Starts the rest of the command line as a process with less than it could have."""

from __future__ import annotations

import ctypes
import os
import resource
import sys

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE = 1


def main() -> None:
    match sys.argv[1:]:
        case ["--obey-file-rights", *command]:
            # Root may write what nobody may write. What is dropped here is gone after exec;
            # for everyone else the call is refused and not needed.
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)
        case ["--largest-file", size, *command]:
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
        case _:
            raise SystemExit(__doc__)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
