"""What a run tells while it learns: small records, and those who listen."""

from onebasin.events.records import Callback, Callbacks, End, Step, Validation

__all__ = ["Callback", "Callbacks", "End", "Step", "Validation"]
