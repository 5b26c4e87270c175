"""The changes that a script would make, found on a copy of a queue manager without messages.

DEFINE of an object that exists alters the attributes that the script names and that differ; others
stay as they are. A command that changes nothing is not run. So a script that is applied twice does
nothing the second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from mayfly.admin import (
    CHANNEL,
    CHLAUTH,
    CLNTCONN,
    QLOCAL,
    QMGR,
    QUEUE_KINDS,
    SETTING,
    SUB,
    TOPIC,
    TYPED_BY,
    Engine,
    Value,
    named,
    object_type,
)
from mayfly.admin.mqsc import status
from mayfly.admin.mqsc.commands import head_of, is_end, run_script
from mayfly.admin.mqsc.display import own_attributes
from mayfly.admin.mqsc.export import exported
from mayfly.admin.mqsc.grammar import (
    Command,
    MqscSyntaxError,
    Parameter,
    Statement,
    distinct,
    parse,
    settings,
    statements,
)
from mayfly.channel import ChannelDefinition, Channels, LinkDown, ReceiverLink
from mayfly.verbs.facts import SYNTAX_ERROR, MqscMessage, MqscResult

_Row: TypeAlias = Mapping[str, Value]
#: Runs MQSC commands on the queue manager, here or over a network.
Run: TypeAlias = Callable[[str], MqscResult]
_DEFINE, _ALTER, _SET, _DELETE = "DEFINE", "ALTER", "SET", "DELETE"
#: Parameters of DEFINE that are no attributes.
_NO_ATTRIBUTES: Final = ("REPLACE", "LIKE", "FORCE")
_ACTION: Final = "ACTION"
_REMOVES: Final = ("REMOVE", "REMOVEALL")
_AUTHREC: Final = "AUTHREC"
_TOPIC_STRING: Final = "TOPICSTR"
#: Replies of a removal that finds nothing.
_NOTHING_THERE: Final = ("AMQ8147E", "AMQ8884E")


class StepAction(StrEnum):
    """Outcomes of one command of a script."""

    DEFINE = "define"
    ALTER = "alter"
    SET = "set"
    DELETE = "delete"
    #: It would change nothing.
    SAME = "same"
    #: An operator has altered what the script, which did not change since, says otherwise.
    KEPT = "kept"
    #: It is no definition, or deletes without being allowed to.
    LEFT = "left"
    #: It cannot be carried out.
    FAILS = "fails"


#: The actions that change something.
CHANGING: Final = (StepAction.DEFINE, StepAction.ALTER, StepAction.SET, StepAction.DELETE)


class AttributeChange(NamedTuple):
    """One attribute with its values as DISPLAY shows them; ``old`` None is none, as ``new``."""

    attribute: str
    old: Value | None
    new: Value | None

    def __str__(self) -> str:
        """Return the change as text: ``MAXDEPTH 5000 -> 10``."""
        old = "" if self.old is None else f"{self.old!r} "
        new = "nothing" if self.new is None else repr(self.new)
        return f"{self.attribute} {old}-> {new}"


class PlanStep(NamedTuple):
    """The outcome of one command: the object, the command to run, and what it changes.

    ``command`` is empty for an action that runs nothing. ``reason`` says why it is left or fails.
    """

    action: StepAction
    object: str
    command: str = ""
    changes: tuple[AttributeChange, ...] = ()
    reason: str = ""


class Applied:
    """A script as it was at its last run: attributes by object, and the text of other commands."""

    def __init__(self, stored: Mapping[str, Any] | None = None) -> None:
        """Take what :meth:`stored` returned; None is nothing.

        Raises LookupError, TypeError or AttributeError for anything else.
        """
        known = {"objects": {}, "commands": []} if stored is None else stored
        self.objects: dict[str, dict[str, Value]] = dict(known["objects"].items())
        self.commands: list[str] = list(known["commands"])

    def stored(self) -> dict[str, Any]:
        """Return attributes and commands of the script for JSON: the argument of ``Applied``."""
        return {"objects": self.objects, "commands": self.commands}


class ScriptPlan(NamedTuple):
    """The steps of a script in its order, and what it said, for the next time."""

    steps: tuple[PlanStep, ...]
    applied: Applied

    @property
    def changing(self) -> list[PlanStep]:
        """The steps that change something."""
        return [step for step in self.steps if step.action in CHANGING]

    @property
    def kept(self) -> list[PlanStep]:
        """The steps that an operator's alterations have ended."""
        return [step for step in self.steps if step.action is StepAction.KEPT]

    @property
    def failing(self) -> list[PlanStep]:
        """The steps that cannot be carried out."""
        return [step for step in self.steps if step.action is StepAction.FAILS]


def plan(
    name: str, run: Run, script: str, *, deletes: bool = False, last: Applied | None = None
) -> ScriptPlan:
    """Return the changes that a script would make on a queue manager; makes none of them.

    ``name`` is the name of the queue manager. ``deletes`` lets DELETE, and SET with
    ACTION(REMOVE), be carried out. ``last`` has the values of the script when it was last applied:
    values that an operator has altered since, and the script has not, are kept; None keeps none.
    """
    with ExitStack() as stack:
        copy = _Copy(lambda: stack.enter_context(_copied(name, run)), run)
        planning = _Planning(copy, deletes=deletes, last=last)
        for statement in statements(script):
            if statement.is_command:
                if is_end(statement):
                    break
                planning.add(statement)
        return ScriptPlan(tuple(planning.steps), planning.said)


class _Copy:
    """A copy that is made when it is first changed; until then the queue manager answers for it."""

    def __init__(self, make: Callable[[], Engine], run: Run) -> None:
        """Take what makes the copy, and what asks the queue manager."""
        self._make, self._ask = make, run
        self._engine: Engine | None = None

    def ask(self, command: str) -> MqscResult:
        """Return the answer to DISPLAY."""
        return self._ask(command) if self._engine is None else run_script(self._engine, command)

    def change(self, command: str) -> MqscResult:
        """Carry out a command on the copy."""
        if self._engine is None:
            self._engine = self._make()
        return run_script(self._engine, command)


@contextmanager
def _copied(name: str, run: Run) -> Iterator[Engine]:
    """Return a context with a copy in memory: all definitions of a queue manager, no messages."""
    values = {row["SETTING"]: row["VALUE"] for row in run("DISPLAY SETTING(*)").rows}
    engine = Engine(
        name, platform=str(values["platform"]), command_level=int(values["command_level"])
    )
    try:
        Channels(engine, _no_link)
        run_script(engine, exported(run))
        yield engine
    finally:
        engine.close()


def _no_link(_definition: ChannelDefinition) -> ReceiverLink:
    """Raise LinkDown: the channels of a copy reach nobody."""
    raise LinkDown("a copy has no channels")


class _Planning:
    """The steps so far, and the copy with what they have changed."""

    def __init__(self, copy: _Copy, *, deletes: bool, last: Applied | None) -> None:
        """Begin without steps."""
        self._copy, self._deletes, self._last = copy, deletes, last
        self.steps: list[PlanStep] = []
        self.said = Applied()

    def add(self, statement: Statement) -> None:
        """Add the step of one command, and carry it out on the copy."""
        try:
            command = parse(statement)
            verb, kind = head_of(command)
            label = _label(statement, command, kind)
            if verb not in (_DEFINE, _ALTER, _SET, _DELETE):
                reason = f"{verb} is no definition: mayfly mqsc runs it"
                step = PlanStep(StepAction.LEFT, label, statement.text, reason=reason)
            elif verb in (_DEFINE, _ALTER) and kind != SETTING:
                step = self._definition(statement, command, verb, kind, label)
            else:
                step = self._other(statement, command, verb, kind, label)
        except MqscSyntaxError as error:
            line, column = statement.place(error.start)
            reason = f"line {line}, column {column}: {error}"
            step = PlanStep(StepAction.FAILS, statement.text[: error.end], reason=reason)
        self.steps.append(step)

    def _definition(
        self, statement: Statement, command: Command, verb: str, kind: str, label: str
    ) -> PlanStep:
        """Return the step of DEFINE or ALTER: of an object that exists, ALTER of what differs."""
        given = distinct(command.parameters)
        kind = status.kind_of(given, kind)
        attributes = {k: p for k, p in given.items() if k not in _NO_ATTRIBUTES}
        rows = object_type(kind).attributes
        wanted = {
            keyword: named(rows[keyword], value)
            for keyword, value in settings(attributes, kind).items()
        }
        if kind == SUB and _TOPIC_STRING in wanted:
            wanted[_TOPIC_STRING] = _whole_topic_string(self._copy, wanted)
        before = _rows(self._copy, command, kind)
        said = self.said.objects.setdefault(label, {})
        said |= wanted
        last = None if self._last is None else self._last.objects.get(label)
        if not before:
            if last == said:
                return PlanStep(StepAction.KEPT, label, reason="an operator has deleted it")
            return self._run(statement, command, statement.text, StepAction.DEFINE, label, kind, [])
        differing = {k: v for k, v in wanted.items() if before[0].get(k) != v}
        kept = [k for k, value in differing.items() if last is not None and last.get(k) == value]
        if kept:
            changes = tuple(AttributeChange(k, before[0].get(k), wanted[k]) for k in kept)
            reason = "an operator has altered it"
            self.steps.append(PlanStep(StepAction.KEPT, label, changes=changes, reason=reason))
        altered = [k for k in differing if k not in kept]
        if not altered:
            return PlanStep(StepAction.SAME, label)
        typed = TYPED_BY.get(kind)
        named_first = [typed] if typed in attributes and typed not in altered else []
        text = " ".join(
            (
                _ALTER,
                _text(statement, command.object),
                *(_text(statement, attributes[str(k)]) for k in (*named_first, *altered)),
            )
        )
        return self._run(statement, command, text, StepAction.ALTER, label, kind, before)

    def _other(
        self, statement: Statement, command: Command, verb: str, kind: str, label: str
    ) -> PlanStep:
        """Return the step of SET, DELETE or ALTER SETTING."""
        action = _word(command, _ACTION)
        removes = verb == _DELETE or action in _REMOVES
        if removes and not self._deletes:
            reason = "nothing is deleted without --delete"
            return PlanStep(StepAction.LEFT, label, statement.text, reason=reason)
        text = statement.text
        if kind == CHLAUTH and not removes:
            parts = [p for p in command.parameters if p.keyword != _ACTION]
            text = f"SET {_text(statement, command.object)} "
            text += " ".join([*(_text(statement, p) for p in parts), "ACTION(REPLACE)"])
        said = " ".join(statement.text.split())
        self.said.commands.append(said)
        before = _rows(self._copy, command, kind)
        how = StepAction.DELETE if removes else StepAction.SET
        step = self._run(statement, command, text, how, label, kind, before)
        if step.action in CHANGING and self._last is not None and said in self._last.commands:
            reason = "an operator has altered it"
            return step._replace(action=StepAction.KEPT, command="", reason=reason)
        return step

    def _run(
        self,
        statement: Statement,
        command: Command,
        text: str,
        action: StepAction,
        label: str,
        kind: str,
        before: Sequence[_Row],
    ) -> PlanStep:
        """Run a command on the copy; return its step, with what has changed there.

        ``before`` are the rows that the object of the command had before it.
        """
        result = self._copy.change(text)
        failed = [message for message in result.messages if not message.is_information]
        if failed:
            if action is StepAction.DELETE and all(m.code in _NOTHING_THERE for m in failed):
                return PlanStep(StepAction.SAME, label)
            return PlanStep(StepAction.FAILS, label, reason=_reason(statement, failed[0]))
        after = _rows(self._copy, command, kind)
        changes = () if action is StepAction.DEFINE else _changes(before, after)
        # A default subscription, which nothing here is made from, is not kept: it does not appear.
        if after == before:
            return PlanStep(StepAction.SAME, label)
        return PlanStep(action, label, text, changes)


def _rows(copy: _Copy, command: Command, kind: str) -> list[_Row]:
    """Return the rows of DISPLAY for the object of a command; [] for an object that is missing."""
    values = command.object.values
    name = f"({' '.join(_quoted(v.text) for v in values)})" if values else ""
    if kind == QMGR:
        question = f"DISPLAY {QMGR} ALL {own_attributes(QMGR)}"
    elif kind == _AUTHREC:
        profile = [str(p) for p in command.parameters if p.keyword in ("PROFILE", "OBJTYPE")]
        question = " ".join(("DISPLAY", _AUTHREC, *profile, "MATCH(EXACT)"))
    elif kind == SETTING:
        question = f"DISPLAY {SETTING}{name}"
    else:
        word = "QUEUE" if kind in QUEUE_KINDS else CHANNEL if kind == CLNTCONN else kind
        own = own_attributes(QLOCAL if kind in QUEUE_KINDS else kind)
        question = f"DISPLAY {word}{name} ALL {own}"
    found = copy.ask(question).rows
    if kind in (CHANNEL, CLNTCONN):
        return [row for row in found if (row["CHLTYPE"] == CLNTCONN) == (kind == CLNTCONN)]
    if kind != QMGR:
        return [row for row in found if kind not in QUEUE_KINDS or row["TYPE"] == kind]
    # A copy has another QMID.
    fixed = object_type(kind).shown
    return [{k: v for k, v in row.items() if k not in fixed} for row in found]


def _whole_topic_string(copy: _Copy, wanted: Mapping[str, Value]) -> str:
    """Return the TOPICSTR that DISPLAY shows of a subscription: behind that of its TOPICOBJ."""
    topic, text = str(wanted.get("TOPICOBJ", "")), str(wanted[_TOPIC_STRING])
    found = copy.ask(f"DISPLAY {TOPIC}({_quoted(topic)}) {_TOPIC_STRING}").rows if topic else ()
    return "/".join(filter(None, (*(str(row[_TOPIC_STRING]) for row in found), text)))


def _changes(before: Sequence[_Row], after: Sequence[_Row]) -> tuple[AttributeChange, ...]:
    """Return what differs: attribute by attribute of one row, else whole rows gone and come."""
    gone = [row for row in before if row not in after]
    come = [row for row in after if row not in before]
    if len(gone) == len(come) == 1:
        keywords = dict.fromkeys([*gone[0], *come[0]])
        return tuple(
            AttributeChange(k, gone[0].get(k), come[0].get(k))
            for k in keywords
            if gone[0].get(k) != come[0].get(k)
        )
    lost = [AttributeChange(k, v, None) for row in gone for k, v in row.items()]
    return tuple(lost + [AttributeChange(k, None, v) for row in come for k, v in row.items()])


def _label(statement: Statement, command: Command, kind: str) -> str:
    """Return what a command is about: ``QLOCAL(Q1)``, or AUTHREC with its profile and entity."""
    if kind != _AUTHREC:
        values = command.object.values
        return f"{kind}({values[0].text})" if values else kind
    wanted = ("PROFILE", "OBJTYPE", "PRINCIPAL", "GROUP")
    found = [_text(statement, p) for p in command.parameters if p.keyword in wanted]
    return " ".join((kind, *found))


def _text(statement: Statement, parameter: Parameter) -> str:
    """Return a parameter as it is written in the script."""
    return statement.text[parameter.start : parameter.end]


def _word(command: Command, keyword: str) -> str:
    """Return the value of a parameter, empty without it."""
    found = [p.values for p in command.parameters if p.keyword == keyword]
    return found[0][0].text if found and found[0] else ""


def _quoted(text: str) -> str:
    """Return a name in quotes, so that MQSC reads it as it is."""
    return "'" + text.replace("'", "''") + "'"


def _reason(statement: Statement, message: MqscMessage) -> str:
    """Return the place of a command and why it failed, in one line."""
    told = " ".join((f"{message.code}:", message.text, *message.body.splitlines()))
    if message.code == SYNTAX_ERROR:
        # Its place is in the command that was made, not in the script.
        told = message.body.splitlines()[-1].partition(": ")[2]
    return f"line {statement.place(0)[0]}: {told}"
