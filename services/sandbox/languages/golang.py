"""Go and its tests. The standard library is compiled and vetted once, ahead of all programs."""

from services.sandbox.execution import Executable
from services.sandbox.languages.declaration import Language, Preparation

# The cache of a prepared folder is read alone: Go does not mind that it cannot write to it.
_ENVIRONMENT = {
    "GOCACHE": "{prepared}/cache",
    "GOFLAGS": "-mod=mod",
    "GOMEMLIMIT": "{heap}MiB",
    "GOPROXY": "off",
    "GOTOOLCHAIN": "local",
    "GO111MODULE": "on",
}
_VERSION = Executable(("go", "version"))
_TEST = ("go", "test", "-exec", "true", "-o", "main.test")
_PACKAGES = (
    *("bufio", "bytes", "container/heap", "container/list", "context", "encoding/json", "errors"),
    *("fmt", "io", "math", "math/big", "math/bits", "math/rand", "net/http", "os", "reflect"),
    *("regexp", "runtime", "sort", "strconv", "strings", "sync", "sync/atomic", "testing"),
    *("text/template", "time", "unicode", "unicode/utf8"),
)
_IMPORTS = "".join(f'import _ "{package}"\n' for package in _PACKAGES)
_PREPARATION = Preparation(
    command=(*_TEST, "all_test.go"),
    products=("cache",),
    files={"all_test.go": f"package main\n\n{_IMPORTS}"},
    environment={"GOCACHE": "{work}/cache"},
)

GO = Language(
    name="go",
    source="main.go",
    compile=("go", "build", "-ldflags=-s -w", "-o", "main", "main.go"),
    artefacts=("main",),
    run=Executable(("./main",)),
    probe=_VERSION,
    environment=_ENVIRONMENT,
    debian=("golang-go",),
    preparation=_PREPARATION,
)

# Compiling vets and builds the tests; they run as a program, as `go test` runs them.
GO_TEST = Language(
    name="go_test",
    source="main_test.go",
    compile=(*_TEST, "{siblings}"),
    artefacts=("main.test",),
    run=Executable(("./main.test", "-test.paniconexit0")),
    probe=_VERSION,
    environment=_ENVIRONMENT,
    programs=("true",),
    debian=("golang-go",),
    preparation=_PREPARATION,
)

FAMILY = (GO, GO_TEST)
