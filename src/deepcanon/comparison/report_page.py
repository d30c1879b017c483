"""The HTML frame of a report with its style sheet, so that a page loads nothing from elsewhere."""

HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>TITLE</title>
<style>
:root {
  --ink: #1f2933; --muted: #66727f; --line: #dde2e7; --sheet: #ffffff; --ground: #f4f6f8;
  --accent: #0072b2; --second: #d55e00; --good: #e3f4ec; --good-ink: #00664a; --warn: #fdf1e6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6eaee; --muted: #9aa6b2; --line: #333d47; --sheet: #1b2127; --ground: #12161a;
    --accent: #56b4e9; --second: #f0a05a; --good: #12382c; --good-ink: #7fdcb8; --warn: #3a2a1a;
  }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, sans-serif }
main { max-width: 84rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem }
h1 { font-size: clamp(1.7rem, 4vw, 2.5rem); line-height: 1.15; margin: 0 0 .9rem; letter-spacing: -.02em }
h1 em { font-style: normal; color: var(--accent) }
h2 { font-size: 1.3rem; margin: 0 0 .8rem; letter-spacing: -.01em }
h3 { font-size: 1rem; margin: 2rem 0 .4rem }
h2 small { color: var(--muted); font-weight: 400; font-size: 1rem }
section { background: var(--sheet); border: 1px solid var(--line); border-radius: 14px; padding: 1.5rem;
  margin-top: 1.25rem }
.facts { list-style: none; display: flex; flex-wrap: wrap; gap: .45rem; padding: 0; margin: 0; font-size: .86rem;
  color: var(--muted) }
.facts li { border: 1px solid var(--line); background: var(--sheet); border-radius: 99px; padding: .12rem .75rem }
.short { border-left: 5px solid var(--accent) }
.short ul { margin: 0; padding-left: 1.1rem; font-size: 1.08rem }
.short li + li { margin-top: .4rem }
.scroll { overflow-x: auto; margin: 0 -1.5rem; padding: 0 1.5rem }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums }
th, td { padding: .5rem .34rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top }
tbody th, th:first-child { text-align: left; font-weight: 600; min-width: 7.5rem }
thead th { color: var(--muted); font-weight: 500; font-size: .82rem; vertical-align: bottom }
td { white-space: nowrap }
td small, th small { display: block; color: var(--muted); font-size: .74rem; font-weight: 400; white-space: normal;
  min-width: 5rem }
td.best { background: var(--good); color: var(--good-ink); font-weight: 600 }
td.sentence { text-align: left; white-space: normal }
.reference th, .reference td { color: var(--muted); font-style: italic; font-weight: 400; border-bottom: 0 }
.kind { display: inline-block; border: 1px solid var(--line); border-radius: 99px; padding: 0 .4rem;
  color: var(--muted); font-size: .74rem; font-weight: 400; margin-left: .2rem }
.remarks { background: var(--warn); border-radius: 10px; padding: .7rem 1rem .7rem 2rem; font-size: .9rem;
  margin: 1rem 0 0 }
.note, .legend { color: var(--muted); font-size: .88rem; margin: .2rem 0 .7rem }
.none { color: var(--muted); font-size: .88rem; padding: 2rem 1rem; text-align: center; margin: 0 }
.failed { border-left: 5px solid var(--second) }
figure { margin: 0; min-width: 0 }
figure.wide { margin-bottom: 1.2rem; overflow-x: auto }
figure.wide svg { min-width: 34rem }
figcaption { color: var(--muted); font-size: .86rem; text-align: center; margin-top: .3rem; overflow-wrap: anywhere }
.gallery { display: grid; gap: 1.1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 15.5rem), 1fr)) }
.gallery.samples { grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)) }
.gallery.confusion { grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)) }
.gallery figure { border: 1px solid var(--line); border-radius: 10px; padding: .6rem; display: flex;
  flex-direction: column; justify-content: space-between }
.gallery.learning { grid-template-columns: 1fr }
.gallery.samples img { image-rendering: pixelated }
.gallery img { width: 100%; height: auto; border-radius: 6px; background: #fff; display: block }
svg { width: 100%; height: auto; display: block; font: 11px system-ui, sans-serif }
svg.ladder { font-size: 12.5px; max-width: 60rem }
svg .grid { stroke: var(--line); stroke-width: 1 }
svg .tick { fill: var(--muted) }
svg .name { fill: var(--ink); font-weight: 600 }
svg .frame { fill: none; stroke: var(--line) }
svg .curve { fill: none; stroke: var(--accent); stroke-width: 1.8; stroke-linejoin: round }
svg .pale { fill: none; stroke: var(--muted); stroke-width: 1; opacity: .35 }
svg .behind { fill: var(--muted); opacity: .3 }
svg circle.dot { fill: var(--accent); opacity: .8 }
svg circle.open { fill: var(--sheet); stroke: var(--second); stroke-width: 2 }
svg .hue0 { stroke: #0072b2; fill: #0072b2 }
svg .hue1 { stroke: #d55e00; fill: #d55e00 }
svg .hue2 { stroke: #009e73; fill: #009e73 }
svg .hue3 { stroke: #cc79a7; fill: #cc79a7 }
svg .hue4 { stroke: #8a6d00; fill: #8a6d00 }
svg .hue5 { stroke: #56b4e9; fill: #56b4e9 }
svg .hue6 { stroke: #7a4fbf; fill: #7a4fbf }
svg .hue7 { stroke: #66727f; fill: #66727f }
svg .named { fill: none; stroke-width: 2; stroke-linejoin: round }
svg .arrow { fill: none; stroke: var(--second); stroke-width: 1.6 }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 50%; vertical-align: -.08rem;
  margin: 0 .15rem 0 .6rem }
.key:first-child { margin-left: 0 }
.key.dot { background: var(--accent) }
.key.open { border: 2px solid var(--second) }
.key.arrow { line-height: .45rem; text-indent: .75rem; color: var(--second); margin-right: 1.2rem; white-space: nowrap }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .5rem 1.4rem; margin: 0; font-size: .93rem }
dt { font-weight: 600 }
dd { margin: 0; color: var(--muted) }
pre { background: var(--ground); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem;
  overflow-x: auto; font: .84rem/1.6 ui-monospace, monospace; margin: .3rem 0 1rem }
@media (max-width: 40rem) {
  dl { grid-template-columns: 1fr; gap: .1rem }
  dd { margin-bottom: .6rem }
  section { padding: 1.1rem }
  .scroll { margin: 0 -1.1rem; padding: 0 1.1rem }
}
@media print { body { background: #fff } section { break-inside: avoid } }
</style>
</head>
<body>
<main>
"""

FOOT = """
</main>
</body>
</html>
"""
