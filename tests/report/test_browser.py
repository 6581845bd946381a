"""The page in a real browser: it renders, needs no network, works by mouse and keyboard, on a phone and at night."""

from __future__ import annotations

import math
import os
import re
import shutil
import time
from pathlib import Path

import pytest

from multireplay.show.text import in_names

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")

CHROMIUM = os.environ.get("PLAYWRIGHT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip
TABS = ["fit", "convergence", "replay", "dependence", "comparison", "repeat"]
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: install it, or set PLAYWRIGHT_CHROMIUM")

DRAWN = "(c) => c.querySelector('.ytick, .xtick') && c._fullLayout.modebar.color !== undefined"

CONTRASTS = """
() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const [r, g, b, a = 1] = rgb(getComputedStyle(e).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    throw new Error("nothing behind");
  };
  const found = [];
  const say = (what, color, element) => {
    const [a, b] = [light(rgb(color)), light(behind(element))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), what]);
  };
  const seen = (e) => e.getClientRects().length > 0;
  const texts = "h1, h2, h3, h4, p, dt, dd, small, th, td, button, a, figcaption, code, footer";
  for (const e of document.querySelectorAll(texts))
    if (seen(e) && e.textContent.trim()) say(e.tagName + e.textContent.slice(0, 20), getComputedStyle(e).color, e);
  for (const e of document.querySelectorAll(".xtick text, .ytick text, .legendtext, .xtitle, .ytitle"))
    if (seen(e) && e.textContent.trim()) say("plot " + e.textContent, getComputedStyle(e).fill, e.closest(".canvas"));
  return found;
}
"""


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield browser
        browser.close()


class Visit:
    """A page that is open, with what it complained of and asked for."""

    def __init__(self, browser, path: Path, viewport=DESKTOP, scheme="light", **options) -> None:
        self.context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def until(self, condition: str) -> None:
        """Wait for it. Not Playwright's own way, which evaluates text within the page: the page forbids that."""
        end = time.monotonic() + 30
        while not self.asked(condition):
            assert time.monotonic() < end, f"never came: {condition}"
            time.sleep(0.02)

    def asked(self, condition: str) -> bool:
        """Whether it is so; not while the page is being loaded again."""
        try:
            return bool(self.page.evaluate(condition))
        except sync_api.Error as failure:
            if "navigation" not in str(failure):
                raise
            return False

    def open(self, slug: str) -> None:
        """Open a tab, and wait until its plots are drawn in the colours of the page."""
        self.page.click(f"#tab-{slug}")
        self.until(f"[...document.querySelectorAll('#{slug} .canvas')].filter((c) => c.clientWidth).every({DRAWN})")

    def assert_clean(self) -> None:
        assert self.complaints == []
        outside = [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))]
        assert outside == []
        assert len([url for url in self.requests if url.startswith("file:")]) == 1


@pytest.fixture(scope="module")
def visits(browser):
    """Pages that are already open, by how they were opened: loading one takes a second."""
    opened: dict[str, Visit] = {}
    yield opened
    for one in opened.values():
        one.context.close()


@pytest.fixture
def visit(browser, visits):
    def enter(path: Path, **options) -> Visit:
        key = repr((path, sorted(options.items())))
        if key not in visits:
            visits[key] = Visit(browser, path, **options)
        visits[key].open("fit")
        return visits[key]

    return enter


def shown(page) -> list[str]:
    return page.eval_on_selector_all("section", "all => all.filter((s) => s.getClientRects().length).map((s) => s.id)")


@pytest.mark.parametrize("which", ["written", "written_multiscale"])
def test_it_renders_every_tab_without_a_word_of_complaint(visit, which, request):
    here = visit(request.getfixturevalue(which))
    for slug in TABS:
        here.open(slug)
        assert shown(here.page) == [slug]
    assert here.page.evaluate("document.querySelectorAll('.canvas .main-svg').length") > 0
    assert here.page.evaluate("window.hacked") is None
    here.assert_clean()


def test_tabs_by_keyboard_and_by_address(visit, written):
    here = visit(written)
    page = here.page
    assert page.get_attribute('[role="tablist"]', "aria-label")
    page.focus("#tab-fit")
    for key, slug in [
        ("ArrowRight", "convergence"), ("ArrowLeft", "fit"), ("ArrowLeft", "repeat"), ("ArrowRight", "fit"),
        ("End", "repeat"), ("Home", "fit"), ("ArrowRight", "convergence"),
    ]:  # fmt: skip
        page.keyboard.press(key)
        assert shown(page) == [slug]
        assert page.evaluate("document.activeElement.id") == f"tab-{slug}"
        assert page.evaluate("location.hash") == f"#{slug}"
        selected = page.eval_on_selector_all('[aria-selected="true"]', "all => all.map((t) => t.id)")
        assert selected == [f"tab-{slug}"]
        assert page.eval_on_selector_all('[role="tab"]', "all => all.filter((t) => t.tabIndex === 0).length") == 1
    page.keyboard.press("Tab")  # from the tabs into what they show
    assert page.evaluate("document.activeElement.closest('section')?.id") == "convergence"
    page.evaluate("location.hash = '#comparison'")
    here.until("document.querySelector('#comparison').classList.contains('open')")
    assert shown(page) == ["comparison"]
    here.assert_clean()


@pytest.mark.parametrize(
    ("slug", "mark", "words"),
    [
        ("fit", ".scatterlayer .point", r"feature \d+|script|bold|a & b"),
        ("convergence", ".scatterlayer .point", r"residual .*rows read"),
        ("replay", ".scatterlayer .point", r"position [\d,]+.*epoch \d+.*steps?.*gap"),
        ("comparison", ".scatterlayer .point", r"samples read.*distance"),
    ],
)
def test_hovering_shows_what_a_point_is(visit, written, written_multiscale, slug, mark, words):
    here = visit(written_multiscale if slug == "replay" else written)
    here.open(slug)
    canvas = here.page.locator(f"#{slug} .canvas", has=here.page.locator(mark)).first
    points = canvas.locator(mark)
    place = points.nth(points.count() // 2)
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    here.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=3)
    here.until("document.querySelector('section.open .hoverlayer .hovertext') !== null")
    text = " ".join(canvas.locator(".hoverlayer .hovertext").all_text_contents())
    assert re.search(words, text), text
    here.assert_clean()


def test_a_strip_says_its_epoch_gap_and_length(visit, written_multiscale, multiscale):
    here = visit(written_multiscale)
    here.open("replay")
    area = here.page.locator("#replay .canvas").first
    area.scroll_into_view_if_needed()
    inner = area.locator(".nsewdrag").first.bounding_box()
    lines = len(multiscale.epochs)
    x, y = inner["x"] + inner["width"] * 0.4, inner["y"] + inner["height"] * (lines - 0.5) / lines
    last = multiscale.epochs[-1]
    here.page.mouse.move(x, y, steps=3)
    here.until(f"document.querySelector('#replay .hoverlayer')?.textContent.includes('epoch {last.k}')")
    text = " ".join(area.locator(".hoverlayer .hovertext").all_text_contents())
    assert f"{last.length:,} steps" in text
    assert f"gap {last.gap:g}" in text


@pytest.mark.parametrize("which", ["written", "written_multiscale"])
def test_on_a_phone_nothing_is_wider_than_the_screen(visit, which, request):
    here = visit(request.getfixturevalue(which), viewport=PHONE, is_mobile=True, has_touch=True)
    for slug in TABS:
        here.open(slug)
        wide, screen = here.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= screen == 390, slug
        outside = here.page.evaluate(
            """() => [...document.querySelectorAll('section.open *, header *, nav *')]
                 .filter((e) => !e.closest('.scroll, pre, svg') && e.getClientRects().length)
                 .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5)
                 .map((e) => e.outerHTML.slice(0, 80))"""
        )
        assert outside == []
        small = here.page.eval_on_selector_all(
            "section.open p, section.open td, section.open code",
            "all => all.map((e) => parseFloat(getComputedStyle(e).fontSize))",
        )
        assert min(small) >= 12
    here.assert_clean()


def test_a_table_that_is_wider_than_a_phone_says_so_until_its_end(visit, written_classes):
    box, cue = "#fit .group.open .scroll", "#fit .group.open .more-right"
    here = visit(written_classes, viewport=PHONE, is_mobile=True, has_touch=True)
    here.until(f"document.querySelector('{box}').classList.contains('wider')")
    assert here.page.is_visible(cue)
    assert "more to the right" in here.page.inner_text(cue)
    here.page.evaluate(f"document.querySelector('{box}').scrollLeft = 10000")
    here.until(f"document.querySelector('{box}').classList.contains('ended')")
    assert not here.page.is_visible(cue)
    assert not visit(written_classes).page.is_visible(cue)  # a desktop has room
    here.assert_clean()


def test_the_reader_chooses_the_class(visit, written_classes):
    here = visit(written_classes)
    options = here.page.eval_on_selector_all("#fit option", "all => all.map((o) => o.textContent)")
    assert options == ["high", "low", "mid"]
    for place in (1, 2, 0):
        here.page.select_option("#fit select", str(place))
        seen = here.page.eval_on_selector_all(".group", "all => all.map((g) => g.getClientRects().length > 0)")
        assert seen == [i == place for i in range(3)]
        here.until(f"[...document.querySelectorAll('#fit .group.open .canvas')].every({DRAWN})")
        assert here.page.evaluate("document.querySelectorAll('#fit .group.open .ytick text').length") == 4
    here.assert_clean()


def test_the_first_thing_on_the_page_is_the_picture(visit, written):
    here = visit(written, viewport=PHONE, is_mobile=True, has_touch=True)
    first = here.page.evaluate("document.querySelector('#fit .canvas').getBoundingClientRect().top + scrollY")
    assert first < PHONE["height"] / 3
    assert here.page.evaluate("document.querySelector('#fit').children[1].className") == "plot"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(visit, written, scheme):
    here = visit(written) if scheme == "light" else visit(written, scheme=scheme)
    paper = here.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(float, re.findall(r"[\d.]+", paper)[:3])) < 150) == (scheme == "dark")
    for slug in TABS:
        here.open(slug)
        found = here.page.evaluate(CONTRASTS)
        assert any("plot" in what for _, what in found) or slug in ("replay", "repeat")
        assert [(what, ratio) for ratio, what in found if ratio < 4.5] == []


def test_the_button_and_the_system_change_the_colours_of_plots_too(visit, written):
    here = visit(written)

    def colours():
        return here.page.evaluate(
            "[getComputedStyle(document.body).color, document.querySelector('#fit .canvas')._fullLayout.font.color]"
        )

    def change(action, count):
        before = colours()
        action()
        here.until(f"document.querySelector('#fit .canvas')._fullLayout.font.color !== {before[1]!r}")
        assert colours()[0] != before[0], count

    first = colours()
    change(lambda: here.page.click("#theme"), 1)
    assert here.page.inner_text("#theme") == "Light"
    change(lambda: here.page.click("#theme"), 2)
    assert colours() == first
    here.page.evaluate("delete document.documentElement.dataset.theme")
    change(lambda: here.page.emulate_media(color_scheme="dark"), 3)
    change(lambda: here.page.emulate_media(color_scheme="light"), 4)
    assert colours() == first
    here.assert_clean()


def test_the_numbers_on_the_page_are_those_of_the_result(visit, written, names, result, buffer, process):
    here = visit(written)
    cells = here.page.eval_on_selector_all(
        "#fit tbody tr",
        "rows => rows.map((r) => [r.cells[0].textContent, ...[...r.cells].slice(1).map((c) => c.dataset.value)])",
    )
    values = {name: float(numbers[0]) for name, *numbers in cells}
    assert values == {name: float(value) for name, value in zip(names, result.x, strict=True)}
    exact = process.problem.fit_exactly(buffer)
    errors = {name: float(numbers[1]) for name, *numbers in cells}
    assert errors == pytest.approx(dict(zip(names, result.standard_error, strict=True)), rel=1e-9)
    assert in_names(str(result.status), names) == here.page.inner_text("#fit p.good")
    here.open("comparison")
    fits = here.page.eval_on_selector_all(
        "#comparison figure.table:last-of-type tbody tr",
        "rows => rows.map((r) => [r.cells[0].textContent, r.cells[2].dataset.value])",
    )
    found = {name: float(value) for name, value in fits}
    assert found == pytest.approx(dict(zip(names, exact, strict=True)), rel=1e-9)
    here.open("repeat")
    code = here.page.eval_on_selector_all("#repeat code", "all => all.map((c) => c.textContent)")
    assert code[0] == "multireplay fit 'a.npz' --report \"r.html\" && echo <done>"
    assert "result = mr.solve(problem, buffer, update=mr.Newton())" in code[1]


def test_tables_sort_and_unfold(visit, written, result):
    here = visit(written)
    rows = "#fit tbody tr"

    def column(number):
        return here.page.eval_on_selector_all(
            rows, f"all => all.filter((r) => r.getClientRects().length).map((r) => r.cells[{number}].dataset.value)"
        )

    first = column(1)
    assert [float(value) for value in first] == result.x.tolist()[:12]
    here.page.click("#fit .unfold")
    assert len(column(1)) == 16
    here.page.click("#fit th:nth-child(2) .sort")
    assert [float(value) for value in column(1)] == sorted(result.x.tolist())
    assert here.page.get_attribute("#fit th:nth-child(2)", "aria-sort") == "ascending"
    here.page.click("#fit th:nth-child(2) .sort")
    assert [float(value) for value in column(1)] == sorted(result.x.tolist(), reverse=True)
    here.page.click("#fit .unfold")
    assert [float(value) for value in column(1)] == sorted(result.x.tolist(), reverse=True)[:12]


def test_on_paper_everything_is_there(visit, written):
    here = visit(written, scheme="dark")
    before = here.page.evaluate("getComputedStyle(document.body).backgroundColor")
    here.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    here.page.emulate_media(media="print")
    here.until(f"[...document.querySelectorAll('.canvas')].every({DRAWN})")
    assert shown(here.page) == TABS
    assert here.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    here.page.emulate_media(media="screen")
    here.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert shown(here.page) == ["fit"]
    assert here.page.evaluate("getComputedStyle(document.body).backgroundColor") == before
    here.assert_clean()


def test_without_scripts_the_text_is_there(browser, written):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(written.as_uri())
    assert page.locator("section:visible").count() == len(TABS)
    assert page.locator("#fit tbody tr:visible").count() == 16
    context.close()


def test_contrast_is_computed_as_wcag_does(browser):
    """Grey #767676 on white is the textbook 4.54."""
    page = browser.new_page()
    page.set_content('<body style="background: #fff"><p style="color: #767676">grey</p></body>')
    (ratio, _), *_ = page.evaluate(CONTRASTS)
    assert math.isclose(ratio, 4.54, abs_tol=0.01)
    page.close()


def test_the_page_of_an_exact_fit_can_be_looked_at(visit, exact, tmp_path):
    here = visit(exact.report(tmp_path / "exact.html"))
    for slug in TABS:
        here.open(slug)
        shown = here.page.locator(f"#{slug}").inner_text()
        assert len(shown) > 50
    assert "Nothing was replayed" in here.page.locator("#replay").text_content()
    here.assert_clean()
