import sys
from importlib.metadata import version as _version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for links and option_tables

project = "nsq-anyio"
author = "The nsq-anyio authors"
copyright = "the nsq-anyio authors"
release = version = _version("nsq-anyio")

extensions = [
    "links",
    "myst_parser",
    "option_tables",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True
default_role = "py:obj"  # docstrings name things as `Consumer.run`
# Built without a network, so other projects' names are not looked up.
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(anyio|collections|concurrent|contextlib|fast_depends|faststream|httpx|opentelemetry|os|prometheus_client|ssl|taskiq)\..*",
    ),
    ("py:(class|exc)", "IncorrectState|SendableMessage|SetupError"),  # FastStream's
]

myst_enable_extensions = ["attrs_inline", "deflist", "fieldlist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
autodoc_mock_imports = ["pyarrow", "pyspark"]  # they take 400 MB
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_typehints_description_target = "documented"

html_theme = "furo"
html_title = f"nsq-anyio {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
