"""Every file that we keep is read and written here, whoever made it: a folder may come from a
stranger, and a file may be damaged, a fifo or a terabyte. docs/trust.md says what is promised."""

from maskless.files.names import printable, slug
from maskless.files.reading import (
    MissingError,
    UnreadableError,
    check_inside,
    check_named,
    opened,
    read_bytes,
)
from maskless.files.tensors import (
    check_finite_weights,
    hash_of,
    largest_file,
    parse_tensors,
    read_tensors,
)
from maskless.files.typed import (
    Number,
    Probability,
    Size,
    Whole,
    check_type,
    parse_json,
    parse_line,
    read_json,
)
from maskless.files.writing import (
    as_json,
    check_writable,
    output_folder,
    replacing,
    write_bytes,
    write_json,
    write_text,
)

__all__ = [
    "MissingError",
    "Number",
    "Probability",
    "Size",
    "UnreadableError",
    "Whole",
    "as_json",
    "check_finite_weights",
    "check_inside",
    "check_named",
    "check_type",
    "check_writable",
    "hash_of",
    "largest_file",
    "opened",
    "output_folder",
    "parse_json",
    "parse_line",
    "parse_tensors",
    "printable",
    "read_bytes",
    "read_json",
    "read_tensors",
    "replacing",
    "slug",
    "write_bytes",
    "write_json",
    "write_text",
]
