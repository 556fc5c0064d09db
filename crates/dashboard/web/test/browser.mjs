// Drives a Chromium for a test: one JSON command per line on stdin, one answer per line on stdout.
// Call it as node browser.mjs CHROMIUM URL. It ends when its stdin does, and takes Chromium with
// it.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import puppeteer from "puppeteer-core";

const [chromium, url] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
// If a page has not changed for this time, it does not change any more. In ms.
const QUIET = 30_000;
// The limit for one step of the browser itself, on a machine that is busy with other tests. In ms.
const TIMEOUT = 600_000;

const browser = await puppeteer.launch({
  executablePath: chromium,
  timeout: TIMEOUT,
  protocolTimeout: TIMEOUT,
  // The name is for DNS rebinding: a page of another site, whose name leads here.
  args: ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP rebound.test 127.0.0.1"],
});
const page = await browser.newPage();
page.setDefaultTimeout(TIMEOUT);
// What the browser reports: errors of the script, and of the content security policy.
const errors = [];
page.on("console", (line) => line.type() === "error" && errors.push(line.text()));
page.on("pageerror", (error) => errors.push(String(error.message)));

/** Calls `read` until it returns something; gives up when the page no longer changes. */
async function until(read, what) {
  let [last, since] = ["", Date.now()];
  for (;;) {
    const found = await read();
    if (found !== null && found !== undefined && found !== false) return found;
    const text = await look("document.body.innerText");
    if (text !== last) [last, since] = [text, Date.now()];
    if (Date.now() - since > QUIET) throw new Error(`${what} does not come; the page has: ${text}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** The result of a script; `null` while the browser goes to another page. */
const look = (...script) =>
  page.evaluate(...script).catch((error) => {
    if (/context/i.test(String(error.message))) return null;
    throw error;
  });

const text = (selector) =>
  look((one) => document.querySelector(one)?.textContent ?? null, selector);

/** Waits for the element and the end of checking: a late answer could move it under the mouse. */
async function settled(selector) {
  const isBusy = "document.querySelector('[aria-busy=true]') !== null";
  await until(() => page.$(selector), selector);
  await until(() => look(isBusy).then((busy) => busy === false), "an end of checking");
}

const commands = {
  async size({ width, height, theme }) {
    await page.setViewport({ width, height });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  },
  async open({ view }) {
    await page.goto(`${url}#/${view}`, { waitUntil: "load" });
    const current = `nav a[aria-current][href="#/${view.split("/")[0]}"]`;
    await until(() => text(current), `the view ${view}`);
    await until(() => text("main h2, main .tile"), `the content of ${view}`);
  },
  /** Waits for the element, and returns when it was there, in milliseconds since 1970. */
  async wait({ selector }) {
    await until(() => text(selector).then((found) => found !== null), selector);
    return Date.now();
  },
  /** Waits until the text there begins with `words`, and returns it. */
  async says({ selector, words }) {
    const read = () => text(selector).then((found) => found?.startsWith(words) && found);
    return until(read, `${selector} with ${words}`);
  },
  async counts() {
    await until(() => text("[data-state]"), "the legend");
    return page.evaluate(() =>
      Object.fromEntries(
        [...document.querySelectorAll("[data-state]")].map((one) => [
          one.dataset.state,
          Number(one.textContent.replaceAll(",", "")),
        ]),
      ),
    );
  },
  /** Points at a cell of the map, and returns what the page says of it. */
  async hover({ index }) {
    const box = await (await page.waitForSelector("canvas")).boundingBox();
    const { cells, columns } = await page.evaluate(() => {
      const canvas = document.querySelector("canvas");
      const cells = Number(canvas.getAttribute("aria-label").match(/(\d+) cells/)[1]);
      const [width, height] = [canvas.clientWidth, canvas.clientHeight];
      return { cells, columns: Math.round(Math.sqrt((cells * width) / height)) };
    });
    const size = box.width / columns;
    if (index >= cells) throw new Error(`there are ${cells} cells`);
    const [column, row] = [index % columns, Math.floor(index / columns)];
    await page.mouse.move(box.x + (column + 0.5) * size, box.y + (row + 0.5) * size);
    return until(() => text(".cell b").then((found) => found && text(".cell")), "the cell");
  },
  async press({ keys }) {
    await page.focus("canvas");
    for (const key of keys) await page.keyboard.press(key);
  },
  async fill({ selector, text }) {
    await settled(selector);
    await page.click(selector, { count: 3 });
    await page.keyboard.press("Backspace");
    await page.type(selector, text);
  },
  async click({ selector }) {
    await settled(selector);
    await page.click(selector);
  },
  async has({ selector, words }) {
    const read = () => text(selector).then((found) => found?.includes(words) && found);
    return until(read, `${selector} with ${words}`);
  },
  async visit({ address }) {
    const answer = await page.goto(address, { waitUntil: "load" });
    return { status: answer.status(), text: await answer.text() };
  },
  evaluate: ({ script }) => page.evaluate(script),
  /** What axe finds that is serious or worse, and whether the page is wider than the screen. */
  async faults() {
    await page.evaluate(axe);
    const found = await page.evaluate("axe.run()");
    const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
    const faults = serious.map((one) => `${one.id}: ${one.nodes[0].html}`);
    const isWide = await page.evaluate("document.documentElement.scrollWidth > innerWidth");
    return isWide ? [...faults, "the page is wider than the screen"] : faults;
  },
  shot: ({ path }) => page.screenshot({ path, fullPage: true }).then(() => null),
  errors: () => errors,
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let answer;
  try {
    answer = { ok: (await commands[command.do](command)) ?? null };
  } catch (error) {
    answer = { error: String(error.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
