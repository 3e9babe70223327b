"""Define the reports' style sheet: light by default and on paper; states differ by more than colour."""

from __future__ import annotations

STYLE = """\
:root{--paper:#fff;--ink:#1f2328;--muted:#57606a;--line:#d5dbe2;--grid:#e6eaef;--card:#f6f8fa;
--active:#1d63c4;--standby:#cfe2fb;--standby-line:#5b93dd;--starting:#a97b16;--hung:#b4232c;--down:#8a94a0;
--flow:#8fcbb4;--silence:#cf222e;--good:#1a7f37;--bad:#b4232c;--warn:#8f6300;--dot:#1d63c4}
@media screen and (prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--muted:#9da7b3;--line:#343c46;
--grid:#222a34;--card:#161c24;--active:#5aa2f5;--standby:#16304f;--standby-line:#4688d8;--starting:#d9a93c;
--hung:#ff7b72;--down:#7d8895;--flow:#2d6f58;--silence:#ff7b72;--good:#56d364;--bad:#ff8f87;--warn:#e3b341;
--dot:#79b8ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 "Segoe UI",Roboto,"Helvetica Neue",Arial,
"Liberation Sans","DejaVu Sans",sans-serif}
main{max-width:1064px;margin:0 auto;padding:28px 32px 48px}
header{border-left:6px solid var(--muted);padding:2px 0 2px 18px;margin-bottom:22px}
header.clean{border-color:var(--good)}header.findings{border-color:var(--bad)}
header.void,header.incomplete{border-color:var(--warn)}
h1{font-size:25px;line-height:1.25;margin:4px 0}
h2{font-size:18px;margin:34px 0 8px}h3{font-size:15px;margin:18px 0 6px}
.kicker,.note,.legend{color:var(--muted);margin:4px 0;font-size:13.5px}
.badge{font-weight:600;color:var(--ink);border:1px solid var(--line);border-radius:9px;padding:1px 9px;margin-left:6px}
header ul{margin:8px 0 0;padding-left:18px;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:10px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 12px}
.tile b{display:block;font-size:22px;line-height:1.2;font-variant-numeric:tabular-nums}
.tile span{color:var(--muted);font-size:12.5px;line-height:1.3;display:block}
.tile.good b{color:var(--good)}.tile.bad b{color:var(--bad)}
section>svg{display:block;width:100%;height:auto}
.defs{position:absolute}
.legend span{display:inline-block;margin-right:18px;white-space:nowrap}
.legend svg{vertical-align:-2px;margin-right:6px}
text{font-size:12px;fill:var(--ink)}text.pair{font-weight:600}text.small{font-size:11.5px;fill:var(--muted)}
text.fault-number{font-size:11px;font-weight:600}text.void-number{font-size:11px;fill:var(--muted)}
.grid{stroke:var(--grid)}.axis{stroke:var(--down)}
.s-active{fill:var(--active)}
.s-standby{fill:var(--standby);stroke:var(--standby-line);stroke-width:.6}
.s-starting{fill:url(#p-starting)}.s-hung{fill:url(#p-hung)}
.s-stopped{fill:none;stroke:var(--down);stroke-width:1;stroke-dasharray:2.5 2.5}
.p-ground{fill:var(--paper)}.p-starting{fill:var(--starting)}.p-hung{fill:var(--hung)}
.flow{fill:var(--flow)}.silence{fill:var(--silence)}
.fault-line{stroke:var(--ink);stroke-width:1.2}.void-line{stroke:var(--muted);stroke-dasharray:3 3}
.dot{fill:var(--dot);fill-opacity:.82}.median{stroke:var(--ink);stroke-width:1.6}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th{text-align:left;color:var(--muted);font-weight:600;font-size:12.5px;vertical-align:bottom;line-height:1.25}
th,td{padding:4px 9px;border-bottom:1px solid var(--grid)}
.n{text-align:right}td.n,td.h{white-space:nowrap}
td.id{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:11.5px;
overflow-wrap:anywhere}
tr.bad td{color:var(--bad)}tr.void td{color:var(--muted)}tr.total td{font-weight:600;border-top:1px solid var(--line)}
tr.said td{font-size:12.5px;padding-top:0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 18px;margin:8px 0;font-size:14px}
dt{color:var(--muted)}dd{margin:0;overflow-wrap:anywhere}
@media print{main{padding:0;max-width:none}body{font-size:12px}section,.tiles,header{break-inside:avoid}
tr{break-inside:avoid}section:has(table){break-inside:auto}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
