"""bill.py FILE: holds a bill of materials to the schema of CycloneDX."""
import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(pathlib.Path(sys.argv[1]).read_text())
if found is not None:
    sys.exit(f"{sys.argv[1]} is no valid bill of materials: {str(found).splitlines()[0]}")
