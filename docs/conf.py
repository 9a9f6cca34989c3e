from importlib.metadata import version as _version


project = "nsq-anyio"
author = "The nsq-anyio authors"
copyright = "the nsq-anyio authors"
release = version = _version("nsq-anyio")

extensions = [
    "myst_parser",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True

myst_enable_extensions = ["attrs_inline", "deflist", "fieldlist"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"nsq-anyio {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
