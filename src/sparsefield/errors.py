"""What goes wrong at the door, said in one sentence that names the place and the mend."""


class DataError(ValueError):
    """The data cannot be used as they are; the message says which column or row, and how to mend it."""


class ModelFileError(ValueError):
    """A file is not a field that this version can read."""


class ClusterError(RuntimeError):
    """A cluster cannot be used, or went away; the message says what to do, and how the fit goes on."""


class UnseenStateWarning(UserWarning):
    """A value that training never saw was met; it is treated as a gap and left as it is in the output."""


class EstimateWarning(UserWarning):
    """An exact answer is out of reach; what stands in its place was sampled or searched for."""
