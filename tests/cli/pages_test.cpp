// The pages in a real browser: no errors, no network, hover and keyboard, no overflow. Needs
// Chromium (Debian package chromium); skipped where it is absent.

#include <cstdlib>
#include <numeric>

#include "cli/workspace.h"

using namespace tril::testing;
namespace fs = std::filesystem;
using tril::Json;

namespace {

/// The browser, or nothing.
std::string find_chromium() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      const std::string candidate = folder + "/" + name;
      if (access(candidate.c_str(), X_OK) == 0) return candidate;
    }
  }
  return {};
}

/// Runs in the page after it has drawn; `out` is what the test gets.
constexpr const char* kCommonProbe = R"js(
const out = {errors: window.problems};
const pointer = (node, x, y, type) => { const b = node.getBoundingClientRect();
  node.dispatchEvent(new PointerEvent(type || 'pointermove', {clientX: b.left + x * b.width, clientY: b.top + y * b.height, bubbles: true})); };
const press = (node, key) => node.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
)js";

struct Shot {
  Json probe;
  std::string console;  ///< lines that the browser logged for the page
};

/// Opens a page at a width of so many pixels (in a frame: a browser window has a least width), runs
/// `script` in it and gives what it put into `out`.
Shot look(const Workspace& workspace,
          const std::string& page,
          int width,
          const std::string& script) {
  std::string html = read_text(workspace / page);
  const std::string head = "<head>";
  html.insert(html.find(head) + head.size(),
              "<script>window.problems = []; addEventListener('error', e => "
              "problems.push(e.message)); addEventListener('securitypolicyviolation', e => "
              "problems.push('blocked: ' + e.blockedURI));</script>");
  html +=
      std::string("<script>setTimeout(() => { try {") + kCommonProbe + script +
      "\nout.overflow = document.documentElement.scrollWidth - innerWidth;"
      "out.requests = performance.getEntriesByType('resource').length;"
      "parent.postMessage(JSON.stringify(out), '*'); } catch (e) { "
      "parent.postMessage(JSON.stringify({errors: [String(e.stack)]}), '*'); } }, 400);</script>";
  write_text(workspace / "probed.html", html);
  write_text(workspace / "frame.html",
             "<!doctype html><body style='margin:0'><iframe src='probed.html' width=" +
                 std::to_string(width) +
                 " height=900 style='border:0'></iframe><script>addEventListener('message', e => "
                 "document.body.dataset.probe = e.data);</script>");
  const auto result = run_process({find_chromium(),
                                   "--headless",
                                   "--no-sandbox",
                                   "--disable-gpu",
                                   "--hide-scrollbars",
                                   "--enable-logging=stderr",
                                   "--host-resolver-rules=MAP * ~NOTFOUND",
                                   "--user-data-dir=" + (workspace / "profile").string(),
                                   "--window-size=1700,1000",
                                   "--virtual-time-budget=4000",
                                   "--dump-dom",
                                   "file://" + (workspace / "frame.html").string()});
  INFO(result.err);
  const std::string key = "data-probe=\"";
  const auto at = result.out.find(key);
  REQUIRE(at != std::string::npos);
  std::string text = result.out.substr(at + key.size());
  text = text.substr(0, text.find('"'));
  for (const auto& [from, to] :
       std::map<std::string, std::string>{{"&quot;", "\""}, {"&lt;", "<"}, {"&gt;", ">"}}) {
    for (size_t i = 0; (i = text.find(from)) != std::string::npos;)
      text.replace(i, from.size(), to);
  }
  for (size_t i = 0; (i = text.find("&amp;", i)) != std::string::npos; ++i) text.replace(i, 5, "&");
  Shot shot;
  shot.probe = Json::parse(text);
  std::istringstream lines(result.err);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("CONSOLE") != std::string::npos) shot.console += line + "\n";
  }
  return shot;
}

void check_sound(const Shot& shot) {
  INFO(shot.probe.dump() << "\n" << shot.console);
  CHECK(shot.probe.at("errors").empty());
  CHECK(shot.console.empty());
  CHECK(shot.probe.value("requests", -1) == 0);
  CHECK(shot.probe.value("overflow", 1) <= 0);
}

constexpr const char* kNoBrowser =
    "no Chromium here (apt-get install chromium): the pages are not looked at";

}  // namespace

TEST_CASE("a report works in a browser: hover, keyboard, phone and wide screen",
          "[cli][report][slow]") {
  if (find_chromium().empty()) TRIL_SKIP(kNoBrowser);
  const Workspace workspace;
  workspace.require(
      "train --config tiny.json --run-dir run --set train.eval_interval=5 "
      "--set train.sample_interval=5 --set train.sample_tokens=10");
  workspace.require("train --config tiny.json --run-dir other --set model.n_embed=8");
  workspace.require("report run --out one.html");
  workspace.require("report run other --out two.html");
  const std::string script = R"js(
const charts = document.querySelectorAll('figure.chart');
out.charts = charts.length;
const svg = charts[0].querySelector('svg'), tip = charts[0].querySelector('.tip');
pointer(svg, 0.5, 0.5);
out.hover = tip.hidden ? '' : tip.textContent;
svg.focus(); press(svg, 'End'); out.last = tip.textContent;
press(svg, 'ArrowLeft'); out.left = tip.textContent;
press(svg, 'Escape'); out.closed = tip.hidden;
document.querySelector('[data-log="1"]').click();
document.querySelector('[data-x="tokens"]').click();
out.axis = [...charts[0].querySelectorAll('text')].map(t => t.textContent).join('|');
out.text = document.body.innerText.length;
)js";
  for (const char* page : {"one.html", "two.html"}) {
    for (const int width : {400, 1600}) {
      INFO(page << " at " << width);
      const Shot shot = look(workspace, page, width, script);
      check_sound(shot);
      CHECK(shot.probe.at("charts").get<int>() >= 6);
      CHECK_THAT(shot.probe.at("hover").get<std::string>(), ContainsSubstring("step "));
      CHECK_THAT(shot.probe.at("last").get<std::string>(), ContainsSubstring("step 10"));
      CHECK_THAT(shot.probe.at("left").get<std::string>(), ContainsSubstring("step 9"));
      CHECK(shot.probe.at("closed") == true);
      CHECK_THAT(shot.probe.at("axis").get<std::string>(),
                 ContainsSubstring("|tokens|") && ContainsSubstring("log scale"));
    }
  }
}

TEST_CASE("an attention page works in a browser: hover tells which token looks where",
          "[cli][inspect][slow]") {
  if (find_chromium().empty()) TRIL_SKIP(kNoBrowser);
  const Workspace workspace;
  workspace.require("train --config tiny.json --run-dir run");
  workspace.require("inspect attention run --out a.html --out a.json --prompt", {"the cat the"});
  const Json json = Json::parse(read_text(workspace / "a.json"));
  const std::string script = R"js(
const canvas = document.getElementById('map'), tip = document.getElementById('tip');
document.querySelectorAll('#grid button')[1].click();
out.pressed = document.querySelectorAll('#grid button')[1].getAttribute('aria-pressed');
// Row 10 looks at column 4: the middle of that cell.
const at = (i, j) => { const b = canvas.getBoundingClientRect(); canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: b.left + edge + (j + 0.5) * cell, clientY: b.top + edge + (i + 0.5) * cell, bubbles: true})); };
at(10, 4); out.hover = tip.hidden ? '' : tip.textContent; out.says = document.getElementById('says').textContent;
out.weight = weight(chosen, 10, 4);
const place = canvas.parentNode.offsetTop;
at(2, 7); out.masked = tip.textContent;
canvas.focus(); at(10, 4); press(canvas, 'ArrowLeft'); out.left = document.getElementById('says').textContent;
const strip = document.getElementById('strip'); press(strip, 'Home'); out.home = document.getElementById('says').textContent;
press(strip, 'End'); canvas.dispatchEvent(new PointerEvent('pointerleave'));
out.moved = canvas.parentNode.offsetTop - place;
// Read once: a second reading makes the browser log advice.
const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height), r = canvas.width / parseFloat(canvas.style.width);
const pixel = (i, j) => { const k = 4 * (Math.floor((edge + (i + .5) * cell) * r) * canvas.width + Math.floor((edge + (j + .5) * cell) * r)); return [...image.data.slice(k, k + 4)]; };
out.white = pixel(2, 7); out.diagonal = pixel(0, 0);
out.rows = document.querySelectorAll('#table tbody tr').length;
)js";
  for (const int width : {400, 1600}) {
    INFO(width);
    const Shot shot = look(workspace, "a.html", width, script);
    check_sound(shot);
    CHECK(shot.probe.at("pressed") == "true");
    CHECK_THAT(
        shot.probe.at("hover").get<std::string>(),
        ContainsSubstring("(10) looks at") && ContainsSubstring("(4)") && ContainsSubstring("%"));
    CHECK(shot.probe.at("weight").get<double>() ==
          Approx(json.at("heads")[1].at("weights")[10][4].get<double>()).margin(1e-5));
    CHECK_THAT(shot.probe.at("says").get<std::string>(), ContainsSubstring("6 back"));
    CHECK_THAT(shot.probe.at("masked").get<std::string>(), ContainsSubstring("masked"));
    CHECK_THAT(shot.probe.at("left").get<std::string>(), ContainsSubstring("7 back"));
    CHECK_THAT(shot.probe.at("home").get<std::string>(), ContainsSubstring("Token 0"));
    CHECK(shot.probe.at("white") == Json({255, 255, 255, 255}));
    CHECK(shot.probe.at("diagonal") != Json({255, 255, 255, 255}));
    CHECK(shot.probe.at("moved") == 0);  // the map stays where it is while one reads it
    CHECK(shot.probe.at("rows") == 2);
  }
}

TEST_CASE("the pages of tokens and weights work in a browser", "[cli][inspect][slow]") {
  if (find_chromium().empty()) TRIL_SKIP(kNoBrowser);
  const Workspace workspace;
  workspace.require("train --config tiny.json --run-dir run");
  workspace.require("inspect tokens run --out t.html --prompt", {"the cat sat on the mat"});
  workspace.require("inspect weights run --out w.html");
  for (const int width : {400, 1600}) {
    INFO(width);
    const Shot tokens = look(workspace, "t.html", width, R"js(
const spans = document.querySelectorAll('#text span');
spans[5].dispatchEvent(new PointerEvent('pointerenter')); out.hover = document.getElementById('panel').textContent;
press(document.getElementById('text'), 'ArrowRight'); out.next = document.getElementById('panel').textContent;
)js");
    check_sound(tokens);
    CHECK_THAT(tokens.probe.at("hover").get<std::string>(),
               ContainsSubstring("Token 5") && ContainsSubstring("nats"));
    CHECK_THAT(tokens.probe.at("next").get<std::string>(), ContainsSubstring("Token 6"));
    const Shot weights = look(workspace, "w.html", width, R"js(
out.charts = document.querySelectorAll('figure.chart svg').length;
out.rows = document.querySelectorAll('#all tbody tr').length;
)js");
    check_sound(weights);
    CHECK(weights.probe.at("charts").get<int>() >= 5);
    CHECK(weights.probe.at("rows").get<int>() >= 10);
  }
}
