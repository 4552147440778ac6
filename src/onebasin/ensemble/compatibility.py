"""What stands between two checkpoints and an alignment: found from headers, configurations and small files alone."""

from __future__ import annotations

from collections.abc import Iterator

from onebasin.canonical.structure import canonical_spec, untied_spec
from onebasin.checkpoint import Checkpoint
from onebasin.ensemble.files_beside import file_obstacles
from onebasin.ensemble.obstacle import Obstacle
from onebasin.ensemble.voice import voice_obstacles
from onebasin.errors import Incompatible, NotExpressible
from onebasin.labels.names import WORDS, names_of
from onebasin.labels.pairs import at_one_length, is_cut, order_between
from onebasin.labels.rewrites import lengths, positions
from onebasin.spec import ModelSpec
from onebasin.widening.pair import common_tables, growth, one_size, size_words


def obstacles(a: Checkpoint, b: Checkpoint) -> list[Obstacle]:
    """Every reason why `a` and `b` cannot be brought into one basis as they are, most basic first."""
    if a.spec.model_type != b.spec.model_type or a.spec.architecture != b.spec.architecture:
        return [Obstacle("model class", a.spec.architecture, b.spec.architecture, "compare two models of one class")]
    return [*_sizes(a, b), *_labels(a, b), *_operations(a, b), *file_obstacles(a, b), *voice_obstacles(a, b)]


def _sizes(a: Checkpoint, b: Checkpoint) -> Iterator[Obstacle]:
    layers = len(a.spec.attentions), len(b.spec.attentions)
    if layers[0] != layers[1]:
        yield Obstacle("number of layers", *layers, "take two models of one depth: layers cannot be added")
        return
    forms = canonical_spec(a), canonical_spec(b)
    if one_size(*forms):
        return
    try:
        tables = common_tables((a, b), forms)
    except (NotExpressible, Incompatible) as reason:
        why = f"{reason.what}{f' ({reason.space})' if reason.space else ''}"
        yield Obstacle("size or eps", _size(forms[0]), _size(forms[1]), f"{why}; {reason.next_step}")
        return
    grown = [growth(form, table) for form, table in zip(forms, tables, strict=True)]
    changes = "; ".join(f"{side}: {words}" for side, words in zip("AB", grown, strict=True) if words)
    step = f"nothing to do: widened first, exactly ({changes})"
    yield Obstacle("size or eps", _size(forms[0]), _size(forms[1]), step, blocks=False)


def _size(form: ModelSpec) -> str:
    """Sizes and eps in words."""
    eps = sorted({norm.eps for norm in form.norms.values()})
    words = [f"{role} {n}" for role, n in size_words(form).items()]
    return ", ".join([*words, f"eps {', '.join(f'{x:g}' for x in eps)}"])


def _labels(a: Checkpoint, b: Checkpoint) -> Iterator[Obstacle]:
    """Labelled axes: tokens, positions, classes, pixels must mean the same thing, or be brought to do so."""
    yield from _positions(a, b)
    a, b = at_one_length((a, b))
    seen = set()
    for letter, word in WORDS.items():
        try:
            order = order_between(a, b, letter)
        except Incompatible as reason:
            seen.add(letter)
            yield Obstacle(f"list of {word}", reason.expected, reason.found, f"{reason.what}; {reason.next_step}")
            continue
        if order is not None:
            yield _other_order(a, b, letter, order)
    for name, leaf in a.spec.leaves.items():
        other = b.spec.leaves.get(name)
        labelled = [i for i, (_, axis, *_) in enumerate(leaf.axes) if axis is None]
        for i in labelled:
            if other is not None and leaf.shape[i] != other.shape[i] and leaf.letters[i] not in seen:
                seen.add(leaf.letters[i])
                step = "give both models the same vocabulary and classes first; only learned positions of texts are cut"
                yield Obstacle(f"length of a labelled axis of {name}", leaf.shape[i], other.shape[i], step)
    mine, theirs = (untied_spec(model).leaves for model in (a, b))
    only = sorted(mine.keys() ^ theirs.keys())
    if only:
        step = "compare config.json: one model has biases or norms that the other lacks"
        yield Obstacle(
            "tensors",
            f"{only[0]} {'present' if only[0] in mine else 'absent'}",
            f"{'present' if only[0] in theirs else 'absent'}",
            step,
        )


def _positions(a: Checkpoint, b: Checkpoint) -> Iterator[Obstacle]:
    """Learned positions that one model has and the other lacks are cut; without a table nothing depends on them."""
    mine, theirs = positions(a), positions(b)
    if mine is None or theirs is None or mine == theirs:
        return
    if any(map(is_cut, at_one_length((a, b)))):
        step = f"nothing to do: the longer table is cut, and all results have {min(mine, theirs)}"
    elif lengths(a.spec) != lengths(b.spec):
        return  # said of the tensor
    else:
        step = "nothing to do: no stored table depends on it, and a merged model says what A says"
    yield Obstacle("number of positions", mine, theirs, step, blocks=False)


def _other_order(a: Checkpoint, b: Checkpoint, letter: str, order: list[int]) -> Obstacle:
    """The same names at other places: said of the first that moves."""
    mine, theirs = names_of(a, letter), names_of(b, letter)
    first = min((name for name in mine if mine[name] != theirs[name]), key=mine.__getitem__)
    moved = sum(i != place for i, place in enumerate(order))
    step = f"nothing to do: {moved:,} {WORDS[letter]} of B are put where A has them, by name"
    here, there = (f"{first!r} at {names[first]}" for names in (mine, theirs))
    return Obstacle(f"order of {WORDS[letter]}", here, there, step, blocks=False)


_ALIKE = "take two models that agree in this setting of config.json: these compute different things"


def _operations(a: Checkpoint, b: Checkpoint) -> Iterator[Obstacle]:
    """What the models compute, with a head of its own for both where only one has it."""
    one, two = untied_spec(a), untied_spec(b)
    for name in one.spaces:
        ops = [[op.name for op in spec.spaces[name].ops] for spec in (one, two) if name in spec.spaces]
        if len(ops) == 2 and ops[0] != ops[1]:
            yield Obstacle(f"operations on {name}", ", ".join(ops[0]), ", ".join(ops[1]), _ALIKE)
    for name, norm in one.norms.items():
        other = two.norms.get(name)
        if other is not None and norm.kind != other.kind:
            yield Obstacle(f"norm {name}", norm.kind, other.kind, _ALIKE)
            break
    for name in one.constants:
        if name in two.constants and one.constants[name] != two.constants[name]:
            yield Obstacle(name, one.constants[name], two.constants[name], _ALIKE)
    if a.spec.tied != b.spec.tied:
        step = "nothing to do: both are untied first, and the results are untied"
        yield Obstacle("tied embeddings", a.spec.tied, b.spec.tied, step, blocks=False)
