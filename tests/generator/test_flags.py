"""Flags in the form that a program's parser expects: held against the parsers themselves."""

from __future__ import annotations

import argparse
import importlib
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import click
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from repository import Repository
from trainwright.datatypes.job import FlagStyle
from trainwright.objects.pods.flags import Arguments, flag_arguments, parse_arguments


def _style(form: Any = "--k=v", **more: Any) -> FlagStyle:
    return FlagStyle(form=form, **more)


@pytest.mark.parametrize(
    ("style", "words"),
    [
        (_style(), ["--a=1", "--b", "--d=x", "--d=y", "--e=t u"]),
        (_style("--k v"), ["--a", "1", "--b", "--d", "x", "--d", "y", "--e", "t u"]),
        (_style("-k=v"), ["-a=1", "-b", "-d=x", "-d=y", "-e=t u"]),
        (_style("-k v"), ["-a", "1", "-b", "-d", "x", "-d", "y", "-e", "t u"]),
        (_style("k=v"), ["a=1", "b=true", "c=false", "d=[x,y]", "e=t u"]),
        (_style(booleans="value"), ["--a=1", "--b=true", "--c=false", "--d=x", "--d=y", "--e=t u"]),
        (_style(booleans="negated"), ["--a=1", "--b", "--no-c", "--d=x", "--d=y", "--e=t u"]),
        (_style("k=v", booleans="switch"), ["a=1", "b", "d=[x,y]", "e=t u"]),
        (_style(lists="words"), ["--a=1", "--b", "--d", "x", "y", "--e=t u"]),
        (_style(lists="comma"), ["--a=1", "--b", "--d=x,y", "--e=t u"]),
        (_style("k=v", lists="repeat"), ["a=1", "b=true", "c=false", "d=x", "d=y", "e=t u"]),
    ],
)
def test_each_style(style: FlagStyle, words: list[str]) -> None:
    flags = {"e": "t u", "a": 1, "b": True, "c": False, "d": ["x", "y"]}
    assert flag_arguments(flags, style) == words


def test_a_flag_with_a_form_of_its_own() -> None:
    flags = {
        "a": {"value": False},
        "b": {"value": True},
        "c": {"switch": False},
        "d": {"switch": True},
        "e": {"repeat": [1, 2]},
        "f": {"words": [0.5, "a", 0.5, "b"]},
        "g": {"comma": ["x", "y"]},
    }
    message = "--a=false --b=true --d --e=1 --e=2 --f 0.5 a 0.5 b --g=x,y"
    assert flag_arguments(flags) == message.split()
    assert flag_arguments({"n": True, "m": False}, _style("k=v")) == ["m=false", "n=true"]
    assert flag_arguments({"a": {"switch": True}}, _style(booleans="value")) == ["--a"]
    swept = flag_arguments({"a": {"comma": ["b,c", "d"]}}, _style("k=v"))
    assert swept == ["a='b,c',d"]  # a sweep of Hydra over two values


def test_overrides_of_hydra() -> None:
    flags = {
        "+a": 1,
        "++b": 2,
        "~c": True,
        "d/e@f": "g",
        "l": ["a b", "it's", "", "x"],
        "n": "null",
    }
    words = ["++b=2", "+a=1", "d/e@f=g", r"l=['a b','it\'s','',x]", "n=null", "~c"]
    assert flag_arguments(flags, _style("k=v")) == words


def _read_by_hydra(override: str) -> tuple[Any] | None:
    """The value of an override, or nothing where Hydra cannot read it."""
    types = importlib.import_module("hydra.core.override_parser.types")

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        return value.text if isinstance(value, types.QuotedString) else value

    try:
        return (plain(_hydra().parse_override(override)._value),)
    except importlib.import_module("hydra.errors").HydraException:
        return None


@cache
def _hydra() -> Any:
    parser = importlib.import_module("hydra.core.override_parser.overrides_parser")
    return parser.OverridesParser.create()


# What is left to Hydra although it may refuse it: its functions, whatever arguments they have, and
# variables of Kubernetes, which are replaced before.
_LEFT = re.compile(
    r"\b(?:bool|choice|extend_list|float|glob|int|interval|json_str|range|shuffle|sort|str|tag)"
    r"[ \t]*\(|\$\([A-Za-z_]"
)
_TEXT = st.text(alphabet=" ab1_'\"[]{}(),=:#é\\$\n~!?/.-+%*@|\t", max_size=8)
_PROSE = st.lists(
    st.sampled_from(
        [*"'\"[]{}(),=:\\", ", ", " ", "don't", "10%", "a", "b c", "lr 0.1", "(a)", "[1]", "{a: b}"]
        + ["'a'", '"b"', "${c}", "f(x)", "sort", "(b, c)", "\\'", "\\,", "null", "1"]
    ),
    max_size=8,
).map("".join)


@given(_TEXT | _PROSE)
@example("https://example.com/a?b=1")
@example("Grüße")
@example("a=b")
@example("a\nb ")
@example(r"a\(b\)")
@example("${a:${b}}")
@example("x,[1,2]")
@example('{"a": 1}')
@example("'a' 'b'")
@example("'''")
@example("null ")
@example("[range(1, 2), {a: [b]}], 'c'")
def test_hydra_reads_a_text_as_it_is_or_as_its_grammar(text: str) -> None:
    (word,) = flag_arguments({"k": text}, _style("k=v"))
    read = _read_by_hydra(f"k={text}")
    if text == text.strip(" \t") and read:
        assert word == f"k={text}"
        assert not isinstance(read[0], str) or read[0] == text or {*"'\"\\"} & set(text)
    elif not _LEFT.search(text):
        assert _read_by_hydra(word) == (text,)


@pytest.mark.parametrize(
    "text",
    [
        *("it's", "[x", "a (b", "Grüße, Welt", "f(x", '"a', "Hello, it's me", "don't, can't"),
        *("lr 0.1, warmup (10%)", "a, b [c] d", "a, b = c (d)", "'a' or 'b'", "[x] y [z]"),
        *("f(x) and (y)", "f(x)", "mean(loss), max(loss)", "range(1) of (2)", "[a], b]", "(a, b)"),
        *("null ", " range(1,2)", " a, b", "[a,b] ", "{a}", "{a, b}", "[a,]", "a, b,", "${a:${b}}"),
    ],
)
def test_what_only_resembles_grammar_of_hydra_is_text(text: str) -> None:
    (word,) = flag_arguments({"k": text}, _style("k=v"))
    assert _read_by_hydra(word) == (text,)
    config = importlib.import_module("omegaconf").OmegaConf.from_cli([word])
    assert importlib.import_module("omegaconf").OmegaConf.to_container(config) == {"k": text}


@pytest.mark.parametrize(
    "text",
    [
        *("[a, [b]]", "{a: 1, b: {c: [d]}}", "1, 2", "'a, b', c", "[], {}", '["it\'s", b]'),
        *("range(1, 4)", "choice(a, b)", "sort(3, 1, reverse=true)", "[int(1.5), x]", "int('1')"),
        *("glob(*, exclude=[a, b])", "shuffle(choice (a, b))", r"a\, b", "${a}, ${b}", "{a: ${b}}"),
    ],
)
def test_grammar_of_hydra_is_passed_as_it_is(text: str) -> None:
    assert _read_by_hydra(f"k={text}")
    assert flag_arguments({"k": text}, _style("k=v")) == [f"k={text}"]


@given(st.lists(_TEXT, max_size=3))
@example(["C:\\x y", "\\d", "\\'", "\\"])
@example(["é", "a#b", "~"])
def test_hydra_reads_each_item_of_a_list(items: list[str]) -> None:
    (word,) = flag_arguments({"k": items}, _style("k=v"))
    read = _read_by_hydra(word)
    assert read is not None
    # 1, true and null are not texts to Hydra
    pairs = zip(read[0], items, strict=True)
    assert [found if isinstance(found, str) else item for found, item in pairs] == items


def test_megatron_reads_its_data_path() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-path", nargs="*")
    flags: dict[str, Any] = {"data-path": {"words": [0.5, "a", 0.5, "b"]}}
    assert parser.parse_args(flag_arguments(flags)).data_path == ["0.5", "a", "0.5", "b"]
    as_a_list = flag_arguments({"data-path": [0.5, "a", 0.5, "b"]})
    assert parser.parse_args(as_a_list).data_path == ["b"]  # what TW028 is about


_VALUE = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
    st.sampled_from(
        ["-1", "-x", "--y", "a b", "x=y", "1_000", "nan", "-inf", "off", "null", "a\nb"]
    ),
)
# What argparse takes for a value behind an option.
_PLAIN_NUMBER = re.compile(r"-\d+|-\d*\.\d+")


def _behind_an_option(item: Any) -> bool:
    return not str(item).startswith("-") or bool(_PLAIN_NUMBER.fullmatch(str(item)))


@given(
    st.sampled_from(["--k=v", "--k v"]),
    st.lists(_VALUE, min_size=1, max_size=4),
    st.booleans(),
)
@example("--k v", [-1, -2], True)
def test_argparse_reads_what_was_meant(form: Any, items: list[Any], truth: bool) -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--one")
    parser.add_argument("--many", nargs="+")
    parser.add_argument("--each", action="append")
    parser.add_argument("--yes", action=argparse.BooleanOptionalAction)
    parser.add_argument("config")
    many = [item for item in items if _behind_an_option(item)] or ["x"]
    items = many if form == "--k v" else items
    flags = {"one": items[0], "many": {"words": many}, "each": {"repeat": items}, "yes": truth}
    words = ["c.yaml", *flag_arguments(flags, _style(form, booleans="negated"))]
    found = parser.parse_args(words)
    texts = [str(item) for item in items]
    assert (found.config, found.one, found.yes) == ("c.yaml", texts[0], truth)
    assert (found.many, found.each) == (list(map(str, many)), texts)


@given(
    st.sampled_from(["--k=v", "--k v"]),
    st.lists(_VALUE, min_size=1, max_size=4),
    st.booleans(),
)
def test_click_reads_what_was_meant(form: Any, items: list[Any], truth: bool) -> None:
    options = (
        click.Option(["--one"]),
        click.Option(["--each"], multiple=True),
        click.Option(["--yes/--no-yes"], default=None),
        click.Option(["--said"], type=bool),
    )
    flags = {"one": items[0], "each": {"repeat": items}, "yes": truth, "said": {"value": truth}}
    words = flag_arguments(flags, _style(form, booleans="negated"))
    found = click.Command("train", params=list(options)).make_context("train", words).params
    texts = tuple(map(str, items))
    assert found == {"one": texts[0], "each": texts, "yes": truth, "said": truth}


@dataclass
class _Training:
    name: str = ""
    epochs: int = 1
    rate: float = 0.0
    bf16: bool = False
    evaluate: bool = True
    layers: list[int] = field(default_factory=list)


@pytest.mark.parametrize("form", ["--k=v", "--k v"])
@pytest.mark.parametrize("booleans", ["switch", "value"])
def test_the_parser_of_hugging_face_reads_what_was_meant(form: Any, booleans: Any) -> None:
    parser = importlib.import_module("transformers.hf_argparser").HfArgumentParser(_Training)
    flags = {
        "name": "a=b c\nGrüße",
        "epochs": 10**30,
        "rate": "-1e-4" if form == "--k=v" else -0.5,  # as the spec has it
        "bf16": True,
        "evaluate": {"value": False},
        "layers": {"words": [3, -1]},
    }
    words = flag_arguments(flags, _style(form, booleans=booleans))
    (found,) = parser.parse_args_into_dataclasses(words)
    rate = float(flags["rate"])
    assert found == _Training(flags["name"], 10**30, rate, True, False, [3, -1])


# --- reading them --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words", "flags"),
    [
        ("c.yaml --lr 0.1 --x", ["c.yaml"], {"lr": ("0.1",), "x": ()}),
        ("--lr=0.1 --d 1 a -2 b --e", [], {"d": (("1", "a", "-2", "b"),), "e": (), "lr": ("0.1",)}),
        ("--d a --d b", [], {"d": ("a", "b")}),
        ("--d a b --d c", [], {"d": (("a", "b"), "c")}),
        ("a.b=1 +c=2 ~d=3 e/f@g=h", [], {"+c=": ("2",), "a.b=": ("1",), "e/f@g=": ("h",), "~d=": ("3",)}),
        ("a=1 b=c=d", ["a=1", "b=c=d"], {}),
        ("a=1 b='c=d'", [], {"a=": ("1",), "b=": ("'c=d'",)}),
        ("-n 5 -lr=0.1", [], {"-lr": ("0.1",), "-n": ("5",)}),
        ("--a=1 b.yaml", ["--a=1", "b.yaml"], {}),
        ("-v -v", ["-v", "-v"], {}),
        ("--multirun lr=1,2", ["--multirun", "lr=1,2"], {}),
        ("--a -- b", ["--a", "--", "b"], {}),
        ("x y", ["x", "y"], {}),
    ],
)  # fmt: skip
def test_arguments_are_taken_apart(line: str, words: list[str], flags: dict[str, Any]) -> None:
    assert parse_arguments(line.split()) == Arguments(tuple(words), flags)


# --- in a repository -----------------------------------------------------------------------------


def _arguments(repository: Repository) -> Any:
    path = repository.root / "environments/prod/rendered/llm/values.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))["args"]


def test_a_job_says_its_style_and_arguments(repository: Repository) -> None:
    path = repository.job("prod/llm", "flags: {trainer.lr: 1e-4, data: [a, b], debug: false}\n")
    text = path.read_text(encoding="utf-8")
    entrypoint = "entrypoint: {script: train.py, args: [experiment, 1e3]}\nflagStyle: k=v"
    path.write_text(text.replace("entrypoint: {script: train.py}", entrypoint), encoding="utf-8")
    done = repository.run("check", "prod")
    assert "TW028" not in done.output
    assert repository.run("render", "prod").exit_code == 0
    wanted = ["experiment", "1e3", "data=[a,b]", "debug=false", "trainer.lr=1e-4"]
    assert _arguments(repository) == wanted


def test_a_list_asks_how_it_is_passed(repository: Repository) -> None:
    repository.job("prod/llm", "flags:\n  data-path: [0.5, a, 0.5, b]\n  one: [a]\n")
    message = repository.run("check", "prod").stdout
    assert "warning[TW028]: flags.data-path is a list, passed as --data-path=0.5" in message
    assert "llm.yaml:11:14" in message
    assert message.count("TW028") == 1
    for answer in ("flagStyle: {lists: repeat}", "flagStyle: {lists: words}", "flagStyle: k=v"):
        repository.job("prod/llm", f"flags:\n  data-path: [0.5, a, 0.5, b]\n{answer}\n")
        assert "TW028" not in repository.run("check", "prod").stdout
    for form in ("repeat", "words", "comma"):
        repository.job("prod/llm", f"flags:\n  data-path: {{{form}: [0.5, a]}}\n")
        assert "TW028" not in repository.run("check", "prod").stdout


def test_a_list_that_says_what_it_is_already_is_the_same_run(repository: Repository) -> None:
    repository.job("prod/llm", "flags: {l: [a, b]}\n")
    assert repository.run("render", "prod").exit_code == 0
    path = repository.root / "environments/prod/rendered/llm/pytorchjob.yaml"
    before = path.read_text(encoding="utf-8")
    repository.job("prod/llm", "flags: {l: {repeat: [a, b]}}\nflagStyle: --k=v\n")
    assert repository.run("render", "prod").exit_code == 0
    assert path.read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("flags: {+a: 1}", "flags.+a cannot be written as --k=v: a name with +"),
        ("flags: {+a: 1}", "Add `flagStyle: k=v`, the form of Hydra."),
        ("flags: {+a: {words: [1, 2]}}", "Change it, or flagStyle."),
        ("flagStyle: hydra", """Write `flagStyle: "k=v"`."""),
        ("flagStyle: posix", "Write one of --k=v, --k v, -k=v, -k v, and k=v as Hydra has it."),
        (
            "flags: {a: {comma: ['b,c', d]}}",
            'flags.a cannot be written as --k=v: the item "b,c" has a comma',
        ),
        (
            "flags: {a: ['b,c']}\nflagStyle: {lists: comma}",
            'flags.a cannot be written as --k=v: the item "b,c"',
        ),
        (
            "flags: {a: {switch: true}}\nflagStyle: k=v",
            "flags.a cannot be written as k=v: a switch has no value",
        ),
        (
            "flags: {a: false}\nflagStyle: {form: k=v, booleans: negated}",
            "booleans: negated writes k and no-k",
        ),
        (
            "flags: {a: true}\nflagStyle: {form: k=v, booleans: switch}",
            "booleans: switch writes k, and",
        ),
        ("flags: {a: {words: [1]}}\nflagStyle: k=v", "words follow an option, and k=v has none"),
        ("flags: {a: [1]}\nflagStyle: {lists: brackets}", "brackets are those of k=v"),
        ("flags: {a: {words: [1], repeat: [2]}}", "has keys that exclude each other"),
        ("flags: {a: {}}", "flags.a"),
        ("flags: {a: {wrods: [1]}}", 'Did you mean "words"?'),
        ("flagStyle: --k:v", "flagStyle"),
    ],
)
def test_what_no_form_says_is_refused(text: str, reported: str, repository: Repository) -> None:
    repository.job("prod/llm", f"{text}\n")
    done = repository.run("check", "prod")
    assert done.exit_code == 1, done.output
    assert reported in done.stdout
