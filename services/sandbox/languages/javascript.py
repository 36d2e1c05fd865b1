"""JavaScript and TypeScript on Node.js, and Jest.

TypeScript is transpiled without type checking, as its usual runners do: only syntax errors fail to
compile.
"""

import json

from services.sandbox.execution import Executable
from services.sandbox.languages.declaration import LanguageSpec

# Debian's and npm's global packages, which Node.js does not always search by default.
_MODULES = (
    "/usr/share/nodejs",
    "/usr/lib/nodejs",
    "/usr/local/lib/node_modules",
    "/usr/lib/node_modules",
)
_ENVIRONMENT = {"NODE_PATH": ":".join(_MODULES)}
_HEAP = "--max-old-space-size={heap}"

_TRANSPILE = """\
const fs = require('fs');
const ts = require('typescript');
const host = {
  getCanonicalFileName: (name) => name,
  getCurrentDirectory: () => process.cwd(),
  getNewLine: () => '\\n',
};
const compilerOptions = {
  module: ts.ModuleKind.CommonJS,
  target: ts.ScriptTarget.ES2021,
  jsx: ts.JsxEmit.React,
  esModuleInterop: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  inlineSourceMap: true,
};
for (const fileName of process.argv.slice(2)) {
  if (fileName.endsWith('.d.ts')) continue;
  const result = ts.transpileModule(fs.readFileSync(fileName, 'utf8'), {
    fileName, compilerOptions, reportDiagnostics: true,
  });
  if (result.diagnostics.length) {
    process.stderr.write(ts.formatDiagnostics(result.diagnostics, host));
    process.exitCode = 2;
  }
  fs.writeFileSync(fileName.replace(/\\.ts$/, '.js'), result.outputText);
}
"""

_JEST = {
    "rootDir": "..",
    "testEnvironment": "node",
    "watchman": False,
    "transform": {
        "\\.[cm]?[jt]sx?$": [
            "babel-jest",
            {
                "babelrc": False,
                "configFile": False,
                "presets": [
                    ["@babel/preset-env", {"targets": {"node": "current"}}],
                    ["@babel/preset-typescript", {"allowDeclareFields": True}],
                ],
            },
        ]
    },
}

NODEJS = LanguageSpec(
    name="nodejs",
    source="main.js",
    run=Executable(("node", _HEAP, "main.js")),
    probe=Executable(("node", "--version")),
    environment=_ENVIRONMENT,
    debian=("nodejs",),
)

TYPESCRIPT = LanguageSpec(
    name="typescript",
    source="main.ts",
    compile=("node", ".sandbox/transpile.js", "{sources}"),
    artifacts=("*.js", "**/*.js"),
    run=Executable(("node", _HEAP, "--enable-source-maps", "main.js")),
    probe=Executable(("node", "-p", "require('typescript').version")),
    support={".sandbox/transpile.js": _TRANSPILE},
    environment=_ENVIRONMENT,
    present={"typescript": "|".join(f"{folder}/typescript" for folder in _MODULES)},
    debian=("nodejs", "node-typescript"),
    npm=("typescript@5",),
)

JEST = LanguageSpec(
    name="jest",
    source="main.test.ts",
    run=Executable(("jest", "--config", ".sandbox/jest.json", "--runInBand", "--ci")),
    probe=Executable(("jest", "--version")),
    support={".sandbox/jest.json": json.dumps(_JEST)},
    environment=_ENVIRONMENT,
    programs=("node",),
    present={"babel": "|".join(f"{folder}/@babel/preset-typescript" for folder in _MODULES)},
    debian=("jest",),
    npm=("jest@29", "@babel/core@7", "@babel/preset-env@7", "@babel/preset-typescript@7"),
)

FAMILY = (NODEJS, TYPESCRIPT, JEST)
