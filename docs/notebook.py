"""Run docs/demo.ipynb and keep what it shows: `make notebook`."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

FILE = Path(__file__).with_name("demo.ipynb")


def main() -> None:
    """Every cell anew; progress bars and times are left out, so that only what was found changes."""
    notebook = nbformat.read(FILE, as_version=4)
    NotebookClient(notebook, timeout=1800, kernel_name="python3", record_timing=False).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(notebook, FILE)


if __name__ == "__main__":
    main()
