"""``nsq-anyio completion``: scripts for bash, zsh and fish, and the answers to their requests.

click completes commands and flags, but not the values in ``--flag=value`` and ``-flag value``. click's script
for bash completes no addresses either, because bash breaks words at ``:`` and ``=``.
"""

from __future__ import annotations

import os
from typing import ClassVar

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

from .command import with_two_dashes
from .lazy_group import COMPLETE_VARIABLE

_PATHS = ("dir", "file")


class _WithValues(ShellComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Return the completions as whole words, except paths, which shells complete themselves."""
        flag, equals, value = incomplete.partition("=")
        if not equals or not flag.startswith("-"):
            return super().get_completions([*args[:-1], *map(with_two_dashes, args[-1:])], incomplete)
        return [
            item if item.type in _PATHS else CompletionItem(f"{flag}={item.value}", help=item.help)
            for item in super().get_completions([*args, with_two_dashes(flag)], value)
        ]


class _Bash(_WithValues, BashComplete):
    """bash passes the line up to the cursor, and the word that it will replace."""

    source_template: ClassVar[str] = """\
%(complete_func)s() {
    local kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORD="${COMP_WORDS[COMP_CWORD]}" \\
        %(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def source(self) -> str:
        """Return the script without a check of this machine's bash: the script may run elsewhere."""
        return ShellComplete.source(self)

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)[1:]
        return (words, "") if line[-1:].isspace() else (words[:-1], words[-1] if words else "")

    def complete(self) -> str:
        """Return the completions, without the part before the word that bash replaces."""
        args, incomplete = self.get_completion_args()
        word = os.environ["COMP_WORD"]
        replaced = "" if word in {":", "="} else word
        kept = incomplete.removesuffix(replaced) if incomplete.endswith(replaced) else ""
        items = self.get_completions(args, incomplete)
        return "\n".join(f"{item.type},{item.value.removeprefix(kept)}" for item in items)


class _Zsh(_WithValues, ZshComplete):
    source_template: ClassVar[str] = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local kind value text
    local -a described bare
    while IFS= read -r kind && IFS= read -r value && IFS= read -r text; do
        case $kind in
            dir) compset -P '-*='; _path_files -/ ;;
            file) compset -P '-*='; _path_files ;;
            plain) if [[ $text == _ ]]; then bare+=("$value"); else described+=("$value:$text"); fi ;;
        esac
    done < <(COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT - 1)) \\
        %(complete_var)s=zsh_complete $words[1])
    (( $#described )) && _describe -V %(prog_name)s described
    (( $#bare )) && compadd -V %(prog_name)s -a bare
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""


class _Fish(_WithValues, FishComplete):
    source_template: ClassVar[str] = """\
function %(complete_func)s
    set -l word (commandline -ct)
    set -l flag (string match --regex -- '^-[^=]*=' $word)
    for line in (COMP_WORDS=(commandline -cp) COMP_CWORD=$word %(complete_var)s=fish_complete %(prog_name)s)
        set -l parts (string split --max 1 , $line)
        switch $parts[1]
            case dir
                printf "$flag%%s\\n" (__fish_complete_directories $parts[2])
            case file
                printf "$flag%%s\\n" (__fish_complete_path $parts[2])
            case plain
                echo $parts[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments '(%(complete_func)s)'
"""


_SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def register_shells() -> None:
    """Register the classes of `_SHELLS` with click, in place of its own."""
    for name, shell in _SHELLS.items():
        add_completion_class(shell, name)


@click.command(
    epilog="""\b
Example:
  nsq-anyio completion bash >> ~/.bashrc
  nsq-anyio completion zsh >> ~/.zshrc
  nsq-anyio completion fish > ~/.config/fish/completions/nsq-anyio.fish""",
)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, flags and their values in SHELL."""
    root = context.find_root()
    script = _SHELLS[shell](root.command, {}, root.info_name or "nsq-anyio", COMPLETE_VARIABLE)
    click.echo(script.source())
