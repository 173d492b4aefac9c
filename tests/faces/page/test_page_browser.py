"""The page in a real browser: what it shows, what hostile programs make of it, how it stands a restart."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx2
import pytest

from tests.kit import browser
from tests.kit.agent import eventually
from tests.kit.service import Service
from tests.kit.visits import TEXT, open_list, show

pytestmark = pytest.mark.skipif(not browser.CHROMIUM, reason="needs Chromium: scripts/browser installs it")


def test_a_card_tells_how_a_session_stands(page: browser.Page, service: Service):
    page.value("location.hash = ''")
    service.result("run", session_id="one", command="echo in the card; false")
    card = "document.querySelector('a.card[href=\"#session=one\"]')"
    page.until(f"{card}?.innerText.includes('in the card')")
    page.until(f"{card}.querySelector('.status')?.textContent == '1'")
    assert page.value(f"{card}.querySelector('.state').textContent") == "at its prompt"


def test_screen_is_live(page: browser.Page, service: Service):
    show(page, "one")
    service.result("run", session_id="one", command="clear; printf '\\033[31mred\\033[0m 漢字 │\\n'")
    page.until(f"{TEXT}.includes('red 漢字 │')")
    spans = "[...document.querySelectorAll('.screen .row span')]"
    assert (
        page.value(f"getComputedStyle({spans}.find((each) => each.textContent == 'red')).color") == "rgb(224, 85, 97)"
    )
    wide, one = (
        page.value(f"{spans}.find((each) => each.textContent == '{char}').getBoundingClientRect().width")
        for char in "漢│"
    )
    assert wide == pytest.approx(2 * one, abs=0.01)


def test_lines_meet_without_gaps(page: browser.Page, service: Service):
    service.result("run", session_id="one", command="clear; printf '││\\n││\\n'")
    show(page, "one")
    page.until(f"{TEXT}.includes('││\\n││')")
    boxes = page.value(
        "[...document.querySelectorAll('.screen .row .drawn')].slice(0, 4)"
        ".map((each) => each.getBoundingClientRect()).map((box) => [box.left, box.top, box.right, box.bottom])"
    )
    assert boxes[0][2] == pytest.approx(boxes[1][0], abs=0.01)
    assert boxes[0][3] == pytest.approx(boxes[2][1], abs=0.01)


def test_a_click_shows_what_a_command_printed(page: browser.Page, service: Service):
    service.result("run", session_id="one", command="echo printed by it")
    show(page, "one")
    line = "[...document.querySelectorAll('.commands .line')].find((each) => each.innerText.includes('printed by it'))"
    page.until(f"{line} !== undefined")
    page.value(f"{line}.click()")
    page.until(f"{line}.parentElement.querySelector('.output').textContent == 'printed by it\\n'")
    page.value(f"{line}.focus()")
    service.result("run", session_id="one", command="echo another")
    page.until("document.querySelector('.commands .line').innerText.includes('another')")
    assert page.value(f"document.activeElement == {line}"), "the focus is lost"


HOSTILE = (
    r"\033]2;<img src=x onerror=window.bad=1>\007",
    r"<script>window.bad=1</script><img src=x onerror=window.bad=1>",
    r"\033]8;;javascript:window.bad=1\007click\033]8;;\007",
    r"\033[?1049h\033[?1049l\033[2J\033[H\033]52;c;YmFk\007\033P+q544e\033\\\\",
    r"<style>*{display:none}</style></div></main>",
)


def test_hostile_programs_show_nothing_but_text(page: browser.Page, service: Service):
    service.result("create_session", program="bash", name="hostile")
    show(page, "hostile")
    for text in (*HOSTILE, "".join(HOSTILE[:2])):
        service.result("run", session_id="hostile", command=f"printf '%b\\n' '{text}'")
    service.result(
        "run", session_id="hostile", command="for i in {1..3000}; do printf '\\033[%dm\\033[%d;%dHx' $i $i $i; done"
    )
    service.result("run", session_id="hostile", command="printf '\\033[0m'; clear; echo '<b id=bad>the end</b>'")
    page.until(f"{TEXT}.includes('<b id=bad>the end</b>')")
    page.value("location.hash = ''")
    page.until("document.querySelectorAll('a.card').length > 1")
    assert page.value("window.bad") is None
    assert page.value("document.querySelectorAll('#app :is(script, img, style, b, iframe)').length") == 0


ADDRESS = "https://example.org/a?b=c"
CLICK_AT_COLUMN = """
(() => {
  const row = document.querySelector('.screen .row');
  const box = row.getBoundingClientRect();
  const cell = parseFloat(document.querySelector('.grid').style.getPropertyValue('--cw'));
  row.dispatchEvent(new MouseEvent('click', {bubbles: true, clientX: box.left + COLUMN * cell, clientY: box.top + 2}));
})()
"""


def test_an_address_opens_only_after_a_question(page: browser.Page, service: Service):
    service.result("run", session_id="one", command="clear; echo 'see https://example.org/a?b=c.'")
    show(page, "one")
    page.until(f"{TEXT}.startsWith('see https://')")
    page.value(CLICK_AT_COLUMN.replace("COLUMN", "8"))
    page.until("document.querySelector('dialog[open] .url')?.textContent == 'https://example.org/a?b=c'")
    link = "document.querySelector('dialog a.main')"
    assert page.value(f"[{link}.href, {link}.target, {link}.rel]") == [ADDRESS, "_blank", "noopener noreferrer"]
    page.value("document.querySelector('dialog button').click()")
    page.until("document.querySelector('dialog') === null")


def test_address_behind_text_opens_only_after_a_question_that_shows_it(page: browser.Page):
    for number, address in enumerate((ADDRESS, "javascript:window.bad=1")):
        page.value(
            "Promise.all(['screen', 'dialog'].map((name) => import(`/page/${name}.js`))).then(([screen, dialog]) => {"
            " const made = new screen.Screen({label: 'x', onLink: dialog.confirmLink});"
            " document.body.prepend(made.element);"
            f" made.show({{size: [20, 1], facts: [0, 0, true, '', 'block'],"
            f" lines: {{0: [{{t: 'the very same '}}, {{t: 'text', h: '{address}'}}]}}}}); }})"
        )
        page.value("document.querySelector('.linked').title")
        page.value(CLICK_AT_COLUMN.replace("COLUMN", "15"))
        shown = page.value("document.querySelector('dialog[open] .url')?.textContent")
        assert shown == (None if number else ADDRESS)
        page.value("document.querySelector('dialog button')?.click()")
        page.value("document.querySelector('.screen').remove()")


def test_an_ended_session_shows_what_it_showed_last(page: browser.Page, service: Service):
    service.result("create_session", program="bash", name="gone")
    service.result("run", session_id="gone", command="echo its last words")
    service.result("destroy_session", session_id="gone")
    show(page, "gone")
    page.until(f"{TEXT}.includes('its last words')")
    page.until("document.body.innerText.includes('This is what it showed last')")


def test_past_is_found_shown_and_left(page: browser.Page, service: Service):
    service.result("create_session", program="bash", name="past")
    service.result("run", session_id="past", command="clear; echo 'the' first; false")
    show(page, "past")
    page.until("document.querySelectorAll('.past .mark.failed').length == 1")
    service.result("run", session_id="past", command="clear; echo 'the' second")
    page.until(f"{TEXT}.includes('the second')")
    page.value("document.querySelector('.search input').value = '^the first'")
    page.value("document.querySelector('.search form').requestSubmit()")
    page.until("document.querySelectorAll('.search .match').length == 1")
    page.value("document.querySelector('.search .match').click()")
    page.until(f"{TEXT}.includes('the first') && !{TEXT}.includes('the second')")
    service.result("run", session_id="past", command="echo and the third")
    page.until("document.querySelector('.commands').innerText.includes('third')")
    assert "third" not in page.value(TEXT)  # the past stays where it is
    page.value("[...document.querySelectorAll('.past button')].find((each) => each.textContent == 'Live').click()")
    page.until(f"{TEXT}.includes('and the third')")


KEEP_DOWNLOADS = """
window.creates = URL.createObjectURL;
URL.createObjectURL = (blob) => creates(window.kept = blob);
HTMLAnchorElement.prototype.click = function () { window.saved = this.download };
1
"""


def test_a_past_screen_has_the_addresses_behind_its_text(page: browser.Page, service: Service):
    service.result("create_session", program="bash", name="links")
    link = f"\\033]8;;{ADDRESS}\\033\\\\shown words\\033]8;;\\033\\\\"
    service.result("run", session_id="links", command=f"clear; printf '{link}\\n'")
    service.result("run", session_id="links", command="clear; echo now")
    show(page, "links")
    page.until(f"{TEXT}.startsWith('now')")
    page.value("document.querySelector('.search input').value = '^shown words'")
    page.value("document.querySelector('.search form').requestSubmit()")
    page.until("document.querySelectorAll('.search .match').length == 1")
    page.value("document.querySelector('.search .match').click()")
    page.until(f"document.querySelector('.screen .linked')?.title == '{ADDRESS}'")
    page.value(CLICK_AT_COLUMN.replace("COLUMN", "3"))
    page.until(f"document.querySelector('dialog[open] .url')?.textContent == '{ADDRESS}'")
    page.value("document.querySelector('dialog button').click()")


def test_earlier_sessions_of_a_name_are_reached_from_it(page: browser.Page, service: Service):
    for words in ("the old one", "the new one"):
        service.result("create_session", program="bash", name="again")
        service.result("run", session_id="again", command=f"echo {words}")
        if words == "the old one":
            service.result("destroy_session", session_id="again")
    show(page, "again")
    page.until(f"{TEXT}.includes('the new one')")
    page.until("document.querySelectorAll('a.generation').length == 2")
    page.value("document.querySelectorAll('a.generation')[1].click()")
    page.until(f"location.hash == '#session=again.1' && {TEXT}.includes('the old one')")
    line = "document.querySelector('.commands .line')"
    page.until(f"{line}?.innerText.includes('the old one')")
    page.value(f"{line}.click()")
    page.until(f"{line}.parentElement.querySelector('.output').textContent == 'the old one\\n'")
    page.value("document.querySelector('.search input').value = 'the .* one'")
    page.value("document.querySelector('.search form').requestSubmit()")
    page.until("document.querySelectorAll('.search .match').length > 0")
    assert "new" not in page.value("document.querySelector('.found').innerText")
    page.value(KEEP_DOWNLOADS)
    page.value("document.querySelector('.download select').value = 'txt'")
    page.value("document.querySelector('.download button').click()")
    page.until("window.saved == 'again.1.txt'")
    text = page.value("kept.text()")
    assert "\nthe old one\n" in text
    assert "new" not in text
    page.value("delete HTMLAnchorElement.prototype.click; URL.createObjectURL = creates; 1")
    page.value("document.querySelectorAll('a.generation')[0].click()")
    page.until(f"location.hash == '#session=again' && {TEXT}.includes('the new one')")


def test_a_past_that_is_not_known_does_not_look_like_one(page: browser.Page, service: Service):
    service.result("run", session_id="one", command="echo the present")
    show(page, "one")
    page.until("document.querySelectorAll('.past .mark').length > 0")
    page.value(
        "window.asks = window.fetch; window.fetch = (path, ...rest) => path != '/page/past' ? asks(path, ...rest) :"
        " new Response(JSON.stringify({error: {code: 'NOT_RETAINED', message: 'x'}}), {status: 410})"
    )
    slider = "document.querySelector('.past .slider')"
    page.value(f"{slider}.value = 5; {slider}.dispatchEvent(new Event('input'))")
    page.until("document.querySelector('.screen.unknown') !== null")
    page.until(f"{TEXT}.trim() == ''")
    assert "not known" in page.value("document.querySelector('.past .note').textContent")
    page.value("window.fetch = window.asks")
    page.value("[...document.querySelectorAll('.past button')].find((each) => each.textContent == 'Live').click()")
    page.until("document.querySelector('.screen.unknown') === null")
    page.until(f"{TEXT}.includes('the present')")


def test_a_recording_is_handed_to_the_browser_and_left_nowhere(page: browser.Page, service: Service, state_dir: Path):
    service.result("run", session_id="one", command="echo recorded")
    show(page, "one")
    asked = "fetch('/page/export', {method: 'POST', body: JSON.stringify({session: 'one', format: 'txt'}), headers:"
    token = "{'content-type': 'application/json', authorization: 'Bearer ' + sessionStorage.getItem('tmuxmcp-token')}"
    assert "recorded\n" in page.value(f"{asked} {token}}}).then((answer) => answer.text())")
    # The browser may have it all a moment before the server is done with sending.
    eventually(lambda: not [file for file in (state_dir / "sessions").rglob("recordings/*") if file.is_file()])


def test_keys_lead_through_the_page(page: browser.Page):
    page.value("location.hash = ''")
    page.until("document.querySelectorAll('a.card').length > 0")
    key = "dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true, cancelable: true}))"
    page.value("document.body." + key % "j")
    assert page.value("document.activeElement.matches('a.card')")
    page.value("document.activeElement.click()")
    page.until("document.querySelector('.session') !== null")
    page.value("document.body." + key % "Escape")
    page.until("document.querySelector('.session') === null")
    page.value("document.body." + key % "/")
    assert page.value("document.activeElement.matches('input.filter')")
    page.value("document.activeElement.value = 'no such'; document.activeElement.dispatchEvent(new Event('input'))")
    assert page.value("document.querySelectorAll('a.card').length") == 0
    page.value("document.activeElement." + key % "Escape")
    assert page.value("document.querySelectorAll('a.card').length") > 0


def test_who_signs_out_is_let_in_no_more(page: browser.Page, service: Service, state_dir: Path):
    token = page.value("sessionStorage.getItem('tmuxmcp-token')")
    page.value("document.querySelector('.out').click()")
    page.until("document.body.innerText.includes('You are signed out')")
    assert page.value("sessionStorage.length") == 0
    assert page.value("document.querySelectorAll('a.card').length") == 0
    page.call("Page.reload")
    page.wait("Page.loadEventFired")
    page.until("document.body.innerText.includes('not open yet')")
    again = httpx2.post(f"{service.url}/page/leave", json={}, headers={"Authorization": f"Bearer {token}"})
    assert again.status_code == 401
    open_list(page, service, state_dir)


LATE = """
window.asks = fetch;
window.paths = [];
const left = new Promise((go) => (window.wasLeft = go));
window.fetch = async (path, ...rest) => {
  paths.push(path);
  if (path == '/page/past' || path == '/page/activity') await left; // slow: it comes to the server after the leave
  const answer = await asks(path, ...rest);
  if (path == '/page/leave') wasLeft();
  return answer;
};
1
"""


def test_nothing_is_asked_for_by_who_has_signed_out(page: browser.Page, service: Service, state_dir: Path):
    service.result("run", session_id="one", command="echo played")
    show(page, "one")
    page.until("document.querySelectorAll('.past .mark').length > 0")
    page.value(LATE)
    page.value("[...document.querySelectorAll('.past button')].find((each) => each.textContent == 'Play').click()")
    page.value("document.querySelector('.past').dispatchEvent(new Event('pointerenter'))")
    page.until("paths.includes('/page/past') && paths.includes('/page/activity')")
    page.value("document.querySelector('.out').click()")
    page.until("document.body.innerText.includes('You are signed out')")
    asked = page.value("wasLeft(), new Promise((go) => setTimeout(() => go(paths.length), 50))")
    assert page.value("paths.at(-1)") == "/page/leave"
    assert page.value("new Promise((go) => setTimeout(() => go(paths.length), 300))") == asked
    page.call("Page.reload")  # with the browser's own fetch
    page.wait("Page.loadEventFired")
    open_list(page, service, state_dir)
    assert not page.complaints


def test_page_goes_on_by_itself_after_a_restart_of_the_server(state_dir: Path, service: Service):
    first = Service(state_dir)
    with browser.page() as page:
        open_list(page, first, state_dir)
        service.result("create_session", program="bash", name="forgotten")
        page.until("document.querySelector('a.card[href=\"#session=forgotten\"]') !== null")
        first.stop()
        page.until("document.querySelector('.link').dataset.state == 'behind'")
        service.result("destroy_session", session_id="forgotten")
        shutil.rmtree(state_dir / "sessions" / "forgotten")
        with Service(state_dir, "--http", f"127.0.0.1:{first.port}"):
            page.until("document.querySelector('.link').dataset.state == 'live'")
            page.until("document.querySelector('a.card[href=\"#session=forgotten\"]') === null")
            service.result("run", session_id="one", command="clear; echo after the restart")
            page.until("document.body.innerText.includes('after the restart')")


@pytest.mark.parametrize("address", ["", "session=one"])
def test_a_telephone_shows_it_without_scrolling_sideways(page: browser.Page, service: Service, address: str):
    page.call("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=3, mobile=True)
    try:
        page.value(f"location.hash = '{address}'")
        page.until(f"document.querySelector('{'.screen .row' if address else 'a.card'}') !== null")
        page.until("document.documentElement.scrollWidth <= 360")
        assert page.value("document.querySelector('.out').getBoundingClientRect().right") <= 360
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")


def test_who_wants_no_motion_sees_none(page: browser.Page, service: Service):
    service.result("run", session_id="one", command="clear; printf '\\033[5mblinks\\033[0m\\n'")
    show(page, "one")
    page.until("document.querySelector('.screen .blink') !== null")
    name = "getComputedStyle(document.querySelector('.screen .blink')).animationName"
    assert page.value(name) == "blink"
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    assert page.value(name) == "none"
    page.call("Emulation.setEmulatedMedia", features=[])
