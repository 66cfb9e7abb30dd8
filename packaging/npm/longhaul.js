#!/usr/bin/env node
// Starts the binary of the package for this platform.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const file = process.platform === "win32" ? "longhaul.exe" : "longhaul";
const name = `@SCOPE@/${process.platform}-${process.arch}`;
let binary;
try {
  binary = require.resolve(`${name}/${file}`);
} catch {
  console.error(`longhaul: no package ${name}; this platform has no binary (Linux needs glibc), or optional packages were left out`);
  process.exit(1);
}
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends its signals to both; what is sent to this process alone is passed on.
for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"]) {
  process.on(signal, () => signal === "SIGINT" || child.kill(signal));
}
child.on("error", (error) => {
  console.error(`longhaul: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
