"""Files of rows: their formats, their faults, and the rows in them."""

from lmk_train.data.reading.cases import CASES, UNREAD, Case, Findings
from lmk_train.data.reading.files import data_files, file_format, is_data_name, length_bucket, read_records, stem
from lmk_train.data.reading.rows import Row, Rows, check_file, read_rows, row_of
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
    "is_data_name",
    "length_bucket",
    "quantiles",
    "read_records",
    "read_rows",
    "row_of",
    "stem",
    "survey",
]
