"""A command line that records and does not judge, as ``recording`` says; SIGINT ends it at once, as the judge."""

import signal


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python drops an exception that comes in an import's callback
    from tests.harness.extras.fleet.recording import record_all  # takes most of a second

    record_all()


if __name__ == "__main__":
    main()
