"""Files of rows: their formats, their faults, and the rows in them."""

from lmk_train.data.reading.cases import CASES, UNREAD, Case, Findings
from lmk_train.data.reading.files import data_files, file_format, length_bucket, read_records, stem, wants_no_in_batch
from lmk_train.data.reading.remote import is_remote, read_remote_rows
from lmk_train.data.reading.rows import Row, Rows, check_file, read_rows, row_of, usable_records
from lmk_train.data.reading.survey import Survey, quantiles, survey

__all__ = [
    "CASES",
    "UNREAD",
    "Case",
    "Findings",
    "Row",
    "Rows",
    "Survey",
    "check_file",
    "data_files",
    "file_format",
    "is_remote",
    "length_bucket",
    "quantiles",
    "read_records",
    "read_remote_rows",
    "read_rows",
    "row_of",
    "stem",
    "survey",
    "usable_records",
    "wants_no_in_batch",
]
