"""The dashboard for Grafana and the alert rules for Prometheus, made of views.toml and the table of metrics."""
import json
import re
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib

FOLDER = Path(__file__).resolve().parent
DASHBOARD = FOLDER.parents[1] / "results/dashboard"
SOURCE = {"type": "prometheus", "uid": "${source}"}
COLUMNS = 24
# What Grafana calls a unit of the table.
UNITS = {"seconds": "s", "bytes": "bytes", "bytes/second": "Bps", "hertz": "hertz", "ratio": "percentunit"}
OPTIONS = {
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "background", "graphMode": "none",
             "textMode": "auto", "justifyMode": "auto", "orientation": "auto"},
    "timeseries": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
                   "tooltip": {"mode": "multi", "sort": "desc"}},
    "table": {"showHeader": True, "cellHeight": "sm"},
}


class BadView(ValueError):
    """views.toml asks for what the table has not."""


def metrics_of(expression):
    return re.findall(r"plumbline_\w+", expression)


def views():
    return tomllib.loads((FOLDER / "views.toml").read_text(encoding="utf-8"))


def _rows_by_name(table):
    return {metric["name"]: metric for group in table["group"] for metric in group["metric"]}


def _require_known(where, expressions, rows):
    for name in (name for expression in expressions for name in metrics_of(expression)):
        if name not in rows:
            raise BadView(f"views.toml: {where}: there is no metric {name}; metrics.toml has them all")


def _unit(expressions, rows):
    """That of all metrics in a panel, where they have one and are not counted."""
    found = {rows[name]["unit"] for expression in expressions for name in metrics_of(expression)}
    counted = any("count(" in expression for expression in expressions)
    return UNITS.get(found.pop(), "") if len(found) == 1 and not counted else ""


def _targets(panel):
    for at, query in enumerate(panel["query"]):
        target = {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query["expr"], "legendFormat": query.get("legend", "__auto")}
        if panel["kind"] != "timeseries":
            target |= {"instant": True, "range": False}
        if panel["kind"] == "table":
            target["format"] = "table"
        yield target


def _panel(panel, rows, number, place):
    expressions = [query["expr"] for query in panel["query"]]
    _require_known(panel["title"], expressions, rows)
    defaults = {}
    if unit := panel.get("unit", _unit(expressions, rows)):
        defaults["unit"] = unit
    if bad := panel.get("bad"):
        defaults["thresholds"] = {"mode": "absolute", "steps": [{"color": "green", "value": None}, {"color": bad["color"], "value": bad["from"]}]}
    if panel.get("stacked"):
        defaults["custom"] = {"fillOpacity": 30, "stacking": {"mode": "normal", "group": "A"}}
    made = {"id": number, "type": panel["kind"], "title": panel["title"],
            "description": panel.get("description") or rows[metrics_of(expressions[0])[0]]["help"],
            "datasource": SOURCE, "gridPos": place, "targets": list(_targets(panel)),
            "fieldConfig": {"defaults": defaults, "overrides": []}, "options": OPTIONS[panel["kind"]]}
    if panel["kind"] == "table":
        made["transformations"] = [{"id": "organize", "options": {"excludeByName": {"Time": True, "Value": True}, "indexByName": {},
                                                                  "renameByName": {}}}]
    return made


def _laid_out(rows_of_panels, rows):
    """Panels from left to right, and below where the columns end."""
    y, number = 0, 1
    for row in rows_of_panels:
        yield {"id": number, "type": "row", "title": row["title"], "collapsed": False, "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}, "panels": []}
        x, y, height, number = 0, y + 1, 0, number + 1
        for panel in row["panel"]:
            width, tall = panel["size"]
            if x + width > COLUMNS:
                x, y, height = 0, y + height, 0
            yield _panel(panel, rows, number, {"x": x, "y": y, "w": width, "h": tall})
            x, height, number = x + width, max(height, tall), number + 1
        y += height


def _variable(name, query):
    return {"name": name, "label": name, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name}, "refresh": 2, "sort": 1,
            "multi": True, "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}, "options": [], "hide": 0,
            "regex": "", "skipUrlSync": False}


def _line_each(whole):
    """JSON text with a line for each field, and for each item of a list of objects."""
    fields = []
    for name, value in whole.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n  " + ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in value) + "\n ]"
        fields.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(fields) + "\n}\n"


def dashboard(table):
    """plumbline.json as it is due."""
    source = {"name": "source", "label": "data source", "type": "datasource", "query": "prometheus", "refresh": 1, "regex": "", "multi": False,
              "includeAll": False, "current": {}, "options": [], "hide": 0, "skipUrlSync": False}
    whole = {"uid": "plumbline", "title": "Plumbline", "description": "What runs of Plumbline wrote to metrics.prom.", "tags": ["plumbline"],
             "schemaVersion": 39, "version": 1, "editable": True, "graphTooltip": 1, "timezone": "browser", "refresh": "5m",
             "time": {"from": "now-30d", "to": "now"}, "links": [], "annotations": {"list": []},
             "templating": {"list": [source, _variable("subject", "label_values(plumbline_run_complete, subject)"),
                                     _variable("benchmark", "label_values(plumbline_benchmark_seconds, benchmark)")]},
             "panels": list(_laid_out(views()["row"], _rows_by_name(table)))}
    return _line_each(whole)


def alerts(table):
    """alerts.yml as it is due. A JSON text is one of YAML, too."""
    lines = ["# Prometheus alert rules over metrics.prom: rule_files in prometheus.yml. alerts_test.yml shows when each fires and when not.",
             "# harness/metrics/metrics_table.py --update makes this file of views.toml.", "groups:", "  - name: plumbline", "    rules:"]
    for alert in views()["alert"]:
        _require_known(alert["name"], [alert["expr"]], _rows_by_name(table))
        lines.append(f"      - alert: {alert['name']}")
        lines += [f"        # {alert['why']}"] if "why" in alert else []
        lines.append(f"        expr: {json.dumps(alert['expr'])}")
        lines += [f"        for: {alert['for']}"] if "for" in alert else []
        lines += [f"        labels: {{severity: {alert['severity']}}}", "        annotations:"]
        lines += [f"          {name}: {json.dumps(alert[name], ensure_ascii=False)}" for name in ("summary", "description") if name in alert]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def due(table):
    """{path: text} of both files."""
    return {DASHBOARD / "plumbline.json": dashboard(table), DASHBOARD / "alerts.yml": alerts(table)}
