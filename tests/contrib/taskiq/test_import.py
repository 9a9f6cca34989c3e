"""Without the extra, the import says what to install."""

import subprocess
import sys


def test_the_import_names_the_extra() -> None:
    code = "import sys; sys.modules['taskiq'] = None; import nsq_anyio.contrib.taskiq"
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 1
    assert "nsq_anyio.contrib.taskiq needs taskiq" in done.stderr
    assert "pip install 'nsq-anyio[taskiq]'" in done.stderr
