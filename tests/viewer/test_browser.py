"""A page in a real browser: pointer, keys, layers, filter, both color schemes, print."""

import shutil
from contextlib import ExitStack

import numpy as np
import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab

pytest.importorskip("sklearn")

from spacy_elmo.analysis.occurrences import Drawn, Occurrence
from spacy_elmo.viewer.page import in_frame, make_page
from spacy_elmo.viewer.sections import curve_section, heat_section, mix_section
from spacy_elmo.viewer.senses import senses_section

from helpers import shown_pages

pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
FOUND = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
CHROMIUM = next(filter(None, FOUND), None)
SWITCHES = ("background-networking", "component-update", "gpu", "sync")
ARGUMENTS = ["--no-sandbox", *(f"--disable-{name}" for name in SWITCHES)]
VIEWS = ["layer 0", "layer 1", "mix (average)"]
HOSTILE = [
    "<script>document.title='broken'</script>",
    "</script><img src=x onerror=document.title='broken'>",
    "<!-- <b>bold</b>",
    "a\u2028b & \"c\" 'd' &lt;",
]
N = 40
MARGIN = 24  # of the map, as page.js has it


def drawn(word, n, vocab):
    """Half in sentences with *river*, half with *money*, and one of each hostile text."""
    found = []
    for i in range(n):
        around = ["river", "mud"] if i % 2 else ["money", "loan"]
        words = [around[0], f"n{i}", word, *(HOSTILE[i].split(" ") if i < len(HOSTILE) else around)]
        sense = f"<i>{around[0]}</i>" if word == "bank" else ""
        doc = Doc(vocab, words=words, user_data={"source": f"<b>{around[0]}</b>", "date": 1800 + i})
        found.append(Occurrence(doc, 2, 3, sense))
    return Drawn(word, n, found)


@pytest.fixture(scope="module")
def section():
    vocab, rng = Vocab(), np.random.default_rng(0)
    sizes = {"bank": N, "</script>": N, "once": 1, "never": 0}
    words, vectors = [drawn(word, n, vocab) for word, n in sizes.items()], []
    for n in sizes.values():
        layers = rng.normal(size=(3, n, 6)) + (16 * (np.arange(n) % 2) - 8)[:, None] * np.eye(6)[0]
        layers[0] = 1.0
        vectors.append(layers)
    return senses_section(words, vectors, VIEWS)


@pytest.fixture(scope="module")
def path(section, tmp_path_factory):
    rng = np.random.default_rng(1)
    tokens = (["the", HOSTILE[0]], ["a", "river", HOSTILE[1]])
    layers = (rng.normal(size=(3, 2, 4)), rng.normal(size=(3, 3, 4)))
    mixes = [{"component": "<b>ner", "mix": 0, "weights": [0.25, 0.75], "gamma": 1.5}]
    sections = [section, heat_section(tokens, layers, VIEWS), mix_section(mixes)]
    path = tmp_path_factory.mktemp("page") / "senses.html"
    path.write_text(make_page(f"bank {HOSTILE[1]}", sections, about=HOSTILE[0]), "utf8")
    return path


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, path, tmp_path):
    """Opens pages; at the end each has made one request, and no error."""
    opened, requests, errors = [], [], []

    def open_page(text=None, width=1200, reduced_motion="reduce", **options):
        place = path if text is None else tmp_path / "page.html"
        if text is not None:
            place.write_text(text, "utf8")
        options |= {"viewport": {"width": width, "height": 1000}, "reduced_motion": reduced_motion}
        page = contexts.enter_context(browser.new_context(offline=True, **options)).new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        opened.append(place.as_uri())
        page.goto(opened[-1])
        return page

    with ExitStack() as contexts:
        yield open_page
    assert requests == opened
    assert errors == []


@pytest.fixture
def page(open_page):
    return open_page()


def dots(page, section, view=2, word=0):
    """Return where the dots are on the screen: as large as fits, in the middle."""
    places = shown_pages.fractions(section["words"][word]["views"][view]["places"]).reshape(-1, 2)
    page.locator("canvas").scroll_into_view_if_needed()
    box = page.locator("canvas").bounding_box()
    size = np.array([box["width"], box["height"]]) - 2  # its border
    scale = ((size - 2 * MARGIN) / np.maximum(np.ptp(places, axis=0), 1e-9)).min()
    middle = (places.max(axis=0) + places.min(axis=0)) / 2
    return [box["x"] + 1, box["y"] + 1] + size / 2 + (places - middle) * scale * [1, -1]


def sentence(section, i, word=0):
    one = section["words"][word]
    return " ".join((one["before"][i], one["itself"][i], one["after"][i]))


def number_shown(page, section):
    tip = page.locator(".tip").inner_text()
    return next(i for i in range(N) if sentence(section, i) in tip)


def slide(page, view, number=0):
    page.locator("input[type=range]").nth(number).fill(str(view))


def rows(page, part="list"):
    return page.locator(f".{part} table.lines tbody tr")


def heading(page):
    return page.locator(".list h3").inner_text()


def pixels(page):
    return page.locator("canvas").screenshot()


def pick(page, word):
    page.get_by_role("radio", name=word).check(force=True)


@pytest.mark.parametrize("width", [1200, 400])
def test_hover_shows_the_sentence(open_page, section, width):
    page = open_page(width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    tip = page.locator(".tip")
    assert tip.is_hidden()
    for i in (0, 1, 7):
        page.mouse.move(*dots(page, section)[i])
        assert sentence(section, i) in tip.inner_text()
        assert tip.locator("mark").inner_text() == "bank"
    page.mouse.move(5, 5)
    assert tip.is_hidden()
    page.mouse.click(*dots(page, section)[2])
    assert rows(page, "near").count() == 10


def test_click_shows_the_nearest(page, section):
    view = section["words"][0]["views"][2]
    near = shown_pages.numbers(view["neighbors"]).reshape(N, 10)
    cosines = shown_pages.fractions(view["cosines"]).reshape(N, 10)
    i, before, shown = 9, pixels(page), rows(page, "near")
    page.mouse.click(*dots(page, section)[i])
    assert sentence(section, i) in page.locator(".near p").inner_text()
    assert [int(row.get_attribute("data-number")) for row in shown.all()] == near[i].tolist()
    assert shown.locator("td:first-child").all_inner_texts() == [f"{c:.3f}" for c in cosines[i]]
    assert pixels(page) != before
    shown.first.click()  # on to the nearest one
    assert sentence(section, near[i][0]) in page.locator(".near p").inner_text()
    page.keyboard.press("Escape")
    page.locator("canvas").focus()
    page.keyboard.press("Escape")
    assert shown.count() == 0


def test_a_layer_can_be_chosen(page, section):
    slider, facts = page.get_by_role("slider", name="Layer").first, page.locator(".facts")
    assert slider.get_attribute("aria-valuetext") == "mix (average)"
    assert "of the variance" in facts.inner_text()
    before = pixels(page)
    slide(page, 0)
    assert "does not see the context" in facts.inner_text()
    assert page.locator("output").first.inner_text() == "layer 0"
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("output").first.inner_text() == "layer 1"
    assert pixels(page) != before
    page.mouse.move(*dots(page, section, view=1)[3])
    assert sentence(section, 3) in page.locator(".tip").inner_text()


def test_dots_move_between_layers(open_page, section):
    page = open_page(reduced_motion="no-preference")
    slide(page, 0)
    page.wait_for_selector("canvas:not([data-moving])")
    page.evaluate("""() => {
      window.moved = 0;
      new MutationObserver(() => { window.moved += 1; })
        .observe(document.querySelector("canvas"), { attributeFilter: ["data-moving"] });
    }""")
    slide(page, 2)
    page.wait_for_function("window.moved > 0")
    page.wait_for_selector("canvas:not([data-moving])")
    page.mouse.move(*dots(page, section)[5])
    assert sentence(section, 5) in page.locator(".tip").inner_text()


def test_the_filter_hides_dots(page, section):
    field = page.get_by_label("Filter")
    for text in ("RIVER", "nowhere"):
        field.fill(text)
        n_found = sum(text.lower() in sentence(section, i) for i in range(N))
        assert heading(page) == f"{n_found} of {N} occurrences with “{text}”"
        assert rows(page).count() == n_found
    field.fill("n17")
    assert rows(page).count() == 1
    assert "n17" in rows(page).inner_text()
    page.mouse.move(*dots(page, section)[4])  # hidden now
    assert page.locator(".tip").is_hidden() or "n4 " not in page.locator(".tip").inner_text()
    page.get_by_role("button", name="Clear").click()
    assert field.input_value() == ""
    assert heading(page) == f"{N} occurrences"


def test_drag_selects_a_region(page, section):
    places = dots(page, section)
    left, top = np.median(places, axis=0)
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    page.mouse.down()
    page.mouse.move(left - 30, top, steps=3)
    page.mouse.move(left, top, steps=2)
    page.mouse.up()
    inside = set(np.flatnonzero((places <= [left, top]).all(axis=1)))
    assert 0 < len(inside) < N
    assert heading(page) == f"{len(inside)} of {N} occurrences in the region"
    assert {int(row.get_attribute("data-number")) for row in rows(page).all()} == inside
    page.get_by_role("button", name="Clear").click()
    page.mouse.move(5, 5)
    page.mouse.down()
    page.mouse.move(left, top)
    page.mouse.up()  # of a drag from elsewhere
    page.mouse.click(*dots(page, section)[3], button="right")
    assert heading(page) == f"{N} occurrences"
    assert rows(page, "near").count() == 0


def test_dots_are_reached_by_keys(page, section):
    page.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    start, places = number_shown(page, section), dots(page, section)
    page.keyboard.press("ArrowLeft")
    found = number_shown(page, section)
    assert places[found][0] < places[start][0]
    assert sentence(section, found) in page.locator(".live").inner_text()
    page.keyboard.press("Enter")
    assert sentence(section, found) in page.locator(".near p").inner_text()
    page.keyboard.press("Escape")
    assert page.locator(".tip").is_hidden()
    assert rows(page, "near").count() == 0
    page.keyboard.press("Tab")  # on to the legend
    page.keyboard.press("Space")
    assert page.locator(".legend button").first.get_attribute("aria-pressed") == "true"
    page.get_by_role("radio", name="bank").focus()
    page.keyboard.press("ArrowRight")
    assert "</script>" in page.locator("canvas").get_attribute("aria-label")
    assert page.evaluate("document.activeElement.type") == "radio"


def test_groups_and_gold_senses_have_colors(page, section):
    legend = page.locator(".legend button")
    names = [text.split("\n")[0] for text in legend.all_inner_texts()]
    assert names == ["<i>money</i>", "<i>river</i>"]
    legend.nth(1).click()
    assert heading(page) == f"20 of {N} occurrences of <i>river</i>"
    page.get_by_label("Color by").select_option("Groups")
    assert legend.first.inner_text().startswith("group 1")
    assert "river" in page.locator(".typical", has_text="river").first.inner_text()
    assert heading(page) == f"{N} occurrences"
    layers = page.locator(".layers table").first.locator("tr")
    assert layers.count() == 1 + len(VIEWS)
    assert "100.0%" in layers.nth(3).inner_text()
    distances = page.locator(".layers table").nth(1).locator("tbody tr")
    assert distances.count() == 1
    assert distances.locator("th").inner_text() == "<i>money</i>, <i>river</i>"
    assert distances.locator("td").last.inner_text().endswith("(p = 0.001)")


def test_a_dot_shows_its_source_and_date(page, section):
    page.mouse.move(*dots(page, section)[7])
    assert "<i>river</i> · <b>river</b>, 1807" in page.locator(".tip").inner_text()
    assert rows(page).first.locator("td").nth(1).inner_text() == "<b>money</b>, 1800"
    page.get_by_label("Filter").fill("1807")
    assert rows(page).count() == 1


def test_words_with_few_occurrences_and_the_whole_list(page):
    for word, facts, n_rows in (("once", "nothing to compare", 1), ("never", "does not occur", 0)):
        pick(page, word)
        assert facts in page.locator(".facts").inner_text()
        assert page.locator("canvas").is_hidden()
        assert page.locator(".list").is_visible() == bool(n_rows)
        assert not n_rows or rows(page).count() == n_rows
    pick(page, "bank")
    assert page.locator("canvas").is_visible()
    assert rows(page).count() == 25
    page.get_by_role("button", name=f"Show all {N}").click()
    assert rows(page).count() == N


def test_text_is_text(page, section):
    assert page.title() == page.locator("h1").inner_text() == f"bank {HOSTILE[1]}"
    pick(page, "</script>")
    page.get_by_role("button", name=f"Show all {N}").click()
    shown = " ".join(page.locator(".list").inner_text().split())
    assert all(" ".join(text.split()) in shown for text in HOSTILE)
    assert page.locator("script").count() == 2
    assert page.locator("i, b, img").count() == 0
    page.mouse.move(*dots(page, section, word=1)[1])
    assert HOSTILE[1] in page.locator(".tip").inner_text()
    assert page.locator("table.heat th", has_text=HOSTILE[0]).count() == 1
    assert page.locator("table.bars th").first.inner_text() == "component"
    assert page.locator("table.bars tbody th").first.inner_text() == "<b>ner (gamma 1.500)"


def test_heat_and_bars_show_their_figures(page, path):
    heat = shown_pages.data_of(path.read_text("utf8"))["sections"][1]
    for view in (2, 0):
        slide(page, view, number=1)
        expected = [f"{value:.2f}" for value in shown_pages.fractions(heat["cosines"][view])]
        assert page.locator("table.heat td").all_inner_texts()[1:] == expected
    widths = [bar.bounding_box()["width"] for bar in page.locator("table.bars .bar > div").all()]
    assert widths[1] / widths[0] == pytest.approx(3, rel=0.02)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_color_schemes_and_print(open_page, scheme):
    page = open_page(color_scheme=scheme)
    background = "getComputedStyle(document.body).backgroundColor"
    colors = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}
    assert page.evaluate(background) == colors[scheme]
    on_screen = pixels(page)
    assert len(on_screen) > 3000  # something is drawn
    page.emulate_media(media="print")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert page.get_by_label("Filter").is_hidden()
    page.emulate_media(media="screen")
    assert pixels(page) == on_screen


def test_a_page_works_in_a_frame(open_page, path):
    """Notebooks show it in one."""
    text = f"<!DOCTYPE html><p>{in_frame(path.read_text('utf8'), 'senses')}"
    frame = open_page(text).frame_locator("iframe")
    assert heading(frame) == f"{N} occurrences"
    frame.locator(".list tr.pick").first.click()
    assert frame.locator(".near tr.pick").count() == 10


def test_a_curve_has_a_line_for_each_kind_of_damage(open_page):
    """Its points are on it, and the same figures are shown as text."""
    rows = [
        {"damage": kind, "damaged": share, "scores": {"ents_f": 0.8 - share * loss}}
        for kind, loss in (("ocr", 1.0), ("keyboard", 0.0))
        for share in (0.0, 0.15, 0.3)
    ]
    page = open_page(make_page("curve", [curve_section(rows, "ents_f")]))
    lines = [line.get_attribute("d") for line in page.locator(".curve path[style]").all()]
    assert lines == ["M60 20L420 160L780 300", "M60 20L420 20L780 20"]
    assert page.locator(".curve path[transform]").count() == 6
    assert page.locator("tbody tr").nth(2).inner_text().split() == ["ocr", "30.0%", "50.00%"]
    assert page.locator(".curve").bounding_box()["width"] > 400
