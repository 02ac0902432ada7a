"""Progress bars of ranks in a notebook that nbclient executed."""

WIDGET = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"


def bar_in(notebook, output):
    """(label, text, value, style) of the bar that an output shows; None if it shows none."""
    widgets = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})

    def parts(name):
        return [child.removeprefix("IPY_MODEL_") for child in widgets[name]["state"]["children"]]

    name = output.get("data", {}).get(WIDGET, {}).get("model_id")
    if name not in widgets:
        return None
    label, inner = parts(name)
    text, bar, _ = parts(inner)
    label, text, bar = (widgets[part]["state"] for part in (label, text, bar))
    return (label["value"], text["value"].replace("\u2007", " "), bar["value"], bar["bar_style"])
