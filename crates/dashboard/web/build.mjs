// Builds ../page from src. `node build.mjs DIRECTORY` builds into another directory, for the test
// that compares the two.
import { build } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "..", "page");

await mkdir(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: [{ in: "src/app.tsx", out: "app" }],
  bundle: true,
  charset: "utf8",
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "inline",
  logLevel: "warning",
  minify: true,
  outdir: out,
  target: ["chrome109", "firefox115", "safari16"],
});
for (const file of ["index.html", "icon.svg"]) {
  await copyFile(join(here, "src", file), join(out, file));
}
