"""The architecture of a model: its attention, one layer, and the whole model."""

from __future__ import annotations

from itertools import pairwise

from eigenformer.analysis.architecture import Architecture
from eigenformer.config import EigenformerConfig
from eigenformer.plots.boxes import PLUS, Diagram, box_height, stack
from eigenformer.plots.picture import Picture, new_picture
from eigenformer.plots.style import PAGE, house_style

# Tints of the palette for the spectrum, for features, and for everything else.
SPECTRAL, FEATURE, PLAIN = "#DCEBF6", "#FBE6D4", "#F1F1F1"

_HEIGHT = 4.9
_WIDTHS = (4.2, 1.4, 1.4)  # of the three panels
_INPUT, _END = 0.16, 4.58  # heights of the lowest and the highest text
_BOTTOM, _TOP = 0.5, 4.36  # the range of the boxes
_NARROW = 0.48  # the width of a linear map


@house_style()
def draw_architecture(found: Architecture) -> Picture:
    """Draws the paper's Figure 2 for one model, with the real shapes."""
    picture = new_picture(PAGE, _HEIGHT, _caption(found))
    left = 0.0
    titles = ("a  spectrum-aware attention", "b  one layer", "c  the model")
    parts = (_draw_attention, _draw_layer, _draw_model)
    for width, title, draw in zip(_WIDTHS, titles, parts, strict=True):
        ax = picture.body.add_axes((left / PAGE, 0, width / PAGE, 1))
        diagram = Diagram(ax, width, _HEIGHT)
        diagram.text(0.05, _HEIGHT - 0.12, title, align="left")
        draw(diagram, found, width)
        left += width
    return picture


def _draw_attention(diagram: Diagram, found: Architecture, width: float) -> None:
    config = found.config
    d, heads = config.hidden_dim, config.heads
    middle = _columns(config, width)
    mlp = " → ".join(["1", *[str(config.phi_width)] * config.phi_depth, "1"])
    pairs, linear = f"{heads} × n × n", f"{d} → {d}"
    dropout = [f"dropout {config.attention_dropout:g}"] * bool(config.attention_dropout)
    edges = r" + W_E e_{ij}" if "edge" in middle else ""
    rows = {
        "first": (r"$\phi_2$ per head", mlp),
        "score": (r"$U\,\phi_2(\Lambda)\,U^\top$", pairs),
        "logit": (r"$\phi_1$ per head", mlp),
        "sum": (),
        "softmax": ("softmax over j", *dropout),
        "gather": (rf"$\Sigma_j\,\alpha_{{ij}}\,(W_V x_j{edges})$", f"{heads} × n × {d // heads}"),
        "out": ("$W_O$", linear),
    }
    if not config.feature_attention:
        del rows["sum"]
    heights = [box_height(lines) if lines else PLUS for lines in rows.values()]
    level = dict(zip(rows, stack(_BOTTOM, _TOP, heights), strict=True))

    # From the spectrum to a score per pair, and on to its logit and weight.
    first = level["first"]
    _, top = _source(diagram, middle["phi2"], first, ("λ", "n"), rows["first"], 0.95, SPECTRAL)
    wide = middle["u"] - middle["phi2"] + 0.61
    score = (middle["phi2"] + middle["u"] - 0.34) / 2
    low, up = diagram.box(score, level["score"], wide, rows["score"], SPECTRAL)
    diagram.arrow((middle["phi2"], top), (middle["phi2"], low))
    _words(diagram, middle["u"], ("U", "n × n"))
    diagram.arrow((middle["u"], _INPUT + 0.17), (middle["u"], low))
    low, logit = diagram.box(score, level["logit"], 0.95, rows["logit"], SPECTRAL)
    diagram.arrow((score, up), (score, low))
    low, attention = diagram.box(score, level["softmax"], 0.95, rows["softmax"], PLAIN)
    if config.feature_attention:
        below, above = diagram.plus(score, level["sum"])
        diagram.arrow((score, logit), (score, below))
        diagram.arrow((score, above), (score, low))
        _draw_feature_logits(diagram, config, middle, level, score + PLUS / 2)
    else:
        diagram.arrow((score, logit), (score, low))

    # From the values of all nodes to a new value per node.
    ends = score - 0.475, middle.get("edge", middle["value"]) + _NARROW / 2
    centre = sum(ends) / 2
    low, up = diagram.box(centre, level["gather"], ends[1] - ends[0], rows["gather"], PLAIN)
    diagram.arrow((score, attention), (score, low))
    diagram.text(score + 0.06, (attention + low) / 2, f"α  {pairs}", align="left", faint=True)
    for name, symbol, words in (
        ("value", "$W_V$", ("x", f"n × {d}")),
        ("edge", "$W_E$", ("e", f"m × {d}")),
    ):
        if name in middle:
            x, box = middle[name], (symbol, linear)
            _, top = _source(diagram, x, first, words, box, _NARROW, PLAIN)
            diagram.arrow((x, top), (x, low))
    low, top = diagram.box(centre, level["out"], 0.95, rows["out"], PLAIN)
    diagram.arrow((centre, up), (centre, low))
    diagram.arrow((centre, top), (centre, _END - 0.09))
    diagram.text(centre, _END, rf"$\hat{{x}}$  n × {d}")


def _draw_feature_logits(
    diagram: Diagram,
    config: EigenformerConfig,
    middle: dict[str, float],
    level: dict[str, float],
    end: float,
) -> None:
    """Draws what node and edge features add to the logits. Their sum is at ``end``."""
    d = config.hidden_dim
    linear, total = f"{d} → {d}", level["sum"]
    product = (middle["query"] + middle["key"]) / 2
    scaled = f"Q Kᵀ / √{d // config.heads}"
    formula = f"ψ({scaled})" if config.psi == "signed_sqrt" else scaled
    wide = middle["key"] - middle["query"] + _NARROW
    lines = (formula, f"{config.heads} × n × n")
    low, top = diagram.box(product, level["score"], wide, lines, FEATURE)
    for name, symbol in (("query", "$W_Q$"), ("key", "$W_K$")):
        x, words = middle[name], ("x", f"n × {d}")
        _, up = _source(diagram, x, level["first"], words, (symbol, linear), _NARROW, FEATURE)
        diagram.arrow((x, up), (x, low))
    diagram.arrow((product, top), (product, total), (end, total))
    if "relation" in middle:
        x, lines = middle["relation"], (r"$W_R\,\rho(W_A e)$", f"{d} → {config.heads}")
        _, up = _source(diagram, x, level["first"], ("e", f"m × {d}"), lines, 0.68, FEATURE)
        diagram.arrow((x, up), (x, total), (product, total))


def _draw_layer(diagram: Diagram, found: Architecture, width: float) -> None:
    config = found.config
    d, x, side = config.hidden_dim, width / 2 + 0.08, 0.1
    norm, last = found.norm, found.norm
    if not config.last_norm:
        last = (*norm, "not in the last layer")
    beside = [(found.local_branch, FEATURE), (found.filters, SPECTRAL)]
    beside = [(lines, fill) for lines, fill in beside if lines]
    steps: list[tuple[tuple[str, ...], str]] = [
        (("attention (a)", f"{config.heads} heads of {d // config.heads}"), SPECTRAL)
    ]
    if config.degree_scaler != "none":
        shared = "shared by all layers" if config.degree_scaler == "shared" else "of this layer"
        steps.append(((r"$\theta_1 + \log(1+d_i)\,\theta_2$", shared), PLAIN))
    steps += beside
    ffn = (found.feed_forward, PLAIN)
    steps += [((), ""), (norm, PLAIN), ffn, ((), ""), (last, PLAIN)]
    heights = [box_height(lines) if lines else PLUS for lines, _ in steps]
    _words(diagram, x, ("x", f"n × {d}"))
    before, branch = _INPUT + 0.17, _INPUT + 0.24
    for (lines, fill), y in zip(steps, stack(_BOTTOM + 0.1, _TOP - 0.1, heights), strict=True):
        if lines:
            low, top = diagram.box(x, y, width - 0.3, lines, fill)
        else:  # the sum with the input
            low, top = diagram.plus(x, y)
            diagram.arrow((x, branch), (side, branch), (side, y), (x - PLUS / 2, y))
        diagram.arrow((x, before), (x, low))
        before = top
        if (lines, fill) in beside:  # also reads the input
            diagram.arrow((x, branch), (side, branch), (side, y), (0.23, y))
        if lines == norm:  # the next sum adds the output of the norm
            branch = top + 0.07
    diagram.arrow((x, before), (x, _END - 0.09))
    diagram.text(x, _END, f"n × {d}", faint=True)


def _draw_model(diagram: Diagram, found: Architecture, width: float) -> None:
    config = found.config
    d, x, box = config.hidden_dim, width / 2, width - 0.3
    pool = {"sum": "sum over nodes", "mean": "mean over nodes", "none": "each node by itself"}
    steps: dict[str, tuple[tuple[str, ...], str]] = {}
    if config.edge_encoder is not None:
        lines = ("edges: e", *config.edge_encoder.describe(d))
        steps["edges"] = (lines, FEATURE)
    steps["nodes"] = (("nodes: x", *config.node_encoder.describe(d)), FEATURE)
    if config.node_potentials:
        lines = ("plus node potentials", f"linear {config.node_potentials} → {d}")
        steps["potentials"] = (lines, SPECTRAL)
    if config.input_norm:
        steps["norm"] = (("batch norm", "scales and shifts"), PLAIN)
    size = f"{found.layer_parameters:,} parameters"
    steps |= {
        "layers": ((f"{config.layers} layers (b)", "each with", size), SPECTRAL),
        "pool": ((pool[config.pooling],), PLAIN),
        "head": (found.head, PLAIN),
    }
    heights = [box_height(lines) for lines, _ in steps.values()]
    levels = dict(zip(steps, stack(_BOTTOM, _TOP, heights), strict=True))
    edges = {
        name: diagram.box(x, levels[name], box, lines, fill)
        for name, (lines, fill) in steps.items()
    }
    diagram.text(x, _INPUT, "a graph")
    names = list(steps)
    diagram.arrow((x, _INPUT + 0.1), (x, edges[names[0]][0]))
    for lower, upper in pairwise(names):
        if lower != "edges":
            diagram.arrow((x, edges[lower][1]), (x, edges[upper][0]))
    if "edges" in steps:  # around the nodes: in on the left, out on the right
        below, left, right = edges["edges"][0] - 0.09, 0.07, width - 0.07
        y = levels["nodes"]
        diagram.arrow((x, below), (left, below), (left, y), (x - box / 2, y))
        start, end = levels["edges"], levels["layers"]
        diagram.arrow((x + box / 2, start), (right, start), (right, end), (x + box / 2, end))
    diagram.arrow((x, edges["head"][1]), (x, _END - 0.09))
    diagram.text(x, _END, "prediction")


def _columns(config: EigenformerConfig, width: float) -> dict[str, float]:
    """Returns the middle of every column of the attention."""
    has_edges = config.edge_encoder is not None
    wide = {"phi2": 0.95, "u": 0.3}
    if config.feature_attention:
        wide |= {"query": _NARROW, "key": _NARROW}
        wide |= {"relation": 0.68} if has_edges else {}
    wide |= {"value": _NARROW}
    wide |= {"edge": _NARROW} if has_edges else {}
    free = width - 0.1 - sum(wide.values())
    gap = min(0.35, free / (len(wide) - 1))
    left = (width - sum(wide.values()) - gap * (len(wide) - 1)) / 2
    middle = {}
    for name, size in wide.items():
        middle[name] = left + size / 2
        left += size + gap
    return middle


def _source(
    diagram: Diagram,
    x: float,
    y: float,
    words: tuple[str, str],
    lines: tuple[str, ...],
    width: float,
    fill: str,
) -> tuple[float, float]:
    """Draws a box with its input below: the input's name and shape."""
    _words(diagram, x, words)
    low, top = diagram.box(x, y, width, lines, fill)
    diagram.arrow((x, _INPUT + 0.17), (x, low))
    return low, top


def _words(diagram: Diagram, x: float, words: tuple[str, str]) -> None:
    diagram.text(x, _INPUT + 0.07, words[0])
    diagram.text(x, _INPUT - 0.07, words[1], faint=True)


def _caption(found: Architecture) -> str:
    config = found.config
    kind = "with" if config.feature_attention else "without"
    edges = " and m edges" if config.edge_encoder is not None else ""
    drop_path = f" Drop path grows to {config.drop_path:g} in the last layer." * bool(
        config.drop_path
    )
    return (
        f"The Eigenformer '{found.name}' {kind} feature attention, {found.parameters:,} "
        f"parameters, for a graph of n nodes{edges}: its attention (a), one of its "
        f"{config.layers} layers (b), and all of it (c). λ and U are the eigenvalues and "
        f"eigenvectors of the normalised Laplacian, dᵢ is the degree of node i. Blue: made from "
        f"the spectrum; orange: from features.{drop_path}"
    )
