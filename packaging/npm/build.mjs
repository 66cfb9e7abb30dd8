// packaging/npm/build.mjs BINARY PLATFORM: makes the package with the binary for PLATFORM, such as
// linux-x64, and the package without one that starts it. Both are .tgz files in dist.
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../..");
const [binary, platform] = process.argv.slice(2);
const sourced = execFileSync("bash", ["-c", 'set -a && . "$0" && env', "packaging/names"], { cwd: root, encoding: "utf8" });
const names = Object.fromEntries(sourced.split("\n").map((line) => line.split(/=(.*)/s).slice(0, 2)));
const version = execFileSync("bash", [join(root, "packaging/version")], { encoding: "utf8" }).trim();
const platforms = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64", "win32-x64"];
const common = { version, license: "MIT OR Apache-2.0", repository: names.REPOSITORY };
const [os, cpu] = platform.split("-");
const file = os === "win32" ? "longhaul.exe" : "longhaul";

function pack(manifest, fill) {
  const folder = mkdtempSync(join(tmpdir(), "npm-"));
  fill(folder);
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest, null, 2));
  for (const licence of ["LICENSE-MIT", "LICENSE-APACHE", "README.md"]) {
    copyFileSync(join(root, licence), join(folder, licence));
  }
  mkdirSync(join(root, "dist"), { recursive: true });
  execFileSync("npm", ["pack", "--silent", "--pack-destination", join(root, "dist")], { cwd: folder, stdio: "inherit", shell: process.platform === "win32" });
  rmSync(folder, { recursive: true });
}

pack(
  { name: `${names.NPM_SCOPE}/${platform}`, ...common, description: `The binary of longhaul for ${platform}`, os: [os], cpu: [cpu],
    // The binary for Linux needs glibc: npm leaves it out elsewhere, and longhaul.js reports it.
    ...(os === "linux" ? { libc: ["glibc"] } : {}), files: [file] },
  (folder) => {
    copyFileSync(binary, join(folder, file));
    chmodSync(join(folder, file), 0o755);
  },
);
pack(
  {
    name: names.NPM_PACKAGE,
    ...common,
    description: "A proxy that keeps long agent conversations inside the model's context window",
    bin: { longhaul: "longhaul.js" },
    files: ["longhaul.js"],
    engines: { node: ">=18" },
    optionalDependencies: Object.fromEntries(platforms.map((one) => [`${names.NPM_SCOPE}/${one}`, version])),
  },
  (folder) => {
    const text = readFileSync(join(root, "packaging/npm/longhaul.js"), "utf8");
    writeFileSync(join(folder, "longhaul.js"), text.replaceAll("@SCOPE@", names.NPM_SCOPE), { mode: 0o755 });
  },
);
