"""Languages compiled to machine code or to a small virtual machine."""

from services.sandbox.execution import Executable
from services.sandbox.languages.code import go_names, verilog_names, with_implicit_usings
from services.sandbox.languages.declaration import LanguageSpec, PreparationSpec

_PROGRAM = Executable(("./main",))
_CPP = ("g++", "-std=c++17", "-O2", "-pthread")
_LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")

CPP = LanguageSpec(
    name="cpp",
    source="main.cpp",
    compile=(
        *_CPP,
        "-I{prepared}",
        "-o",
        "main",
        "main.cpp",
        "-lm",
        "-Wl,--as-needed",
        "{ssl}",
        "{crypto}",
    ),
    artifacts=("main",),
    run=_PROGRAM,
    probe=Executable(("g++", "-dumpfullversion")),
    # Contest programs include OpenSSL's hash functions and expect them to be linked.
    optional={
        name: "|".join(f"{folder}/lib{name}.so" for folder in _LIBRARIES)
        for name in ("ssl", "crypto")
    },
    debian=("g++",),
    preparation=PreparationSpec(
        command=(*_CPP, "-x", "c++-header", "bits/all.h", "-o", "bits/stdc++.h.gch"),
        products=("bits/stdc++.h.gch",),
        files={"bits/all.h": "#include <bits/stdc++.h>\n"},
    ),
)

# Optimized, but with overflow checks, as in debug builds.
RUST = LanguageSpec(
    name="rust",
    source="main.rs",
    compile=(
        "rustc",
        "--edition=2021",
        "-Copt-level=2",
        "-Cdebug-assertions=yes",
        "-Cstrip=debuginfo",
        "-o",
        "main",
        "main.rs",
    ),
    artifacts=("main",),
    run=_PROGRAM,
    probe=Executable(("rustc", "--version")),
    programs=("cc",),
    debian=("rustc",),
)

# By default a failed Debug.Assert prints nothing, and the program continues.
_FAILING_ASSERT = """\
public sealed class SandboxAssertions : System.Diagnostics.DefaultTraceListener {
  public override void Fail(string message, string detail) {
    System.Console.Out.Flush();
    System.Console.Error.WriteLine("Assertion failed: " + message + " " + detail);
    System.Console.Error.WriteLine(new System.Diagnostics.StackTrace(true));
    System.Environment.Exit(134);
  }
}
"""
_LISTENERS = """\
<configuration><system.diagnostics><trace><listeners>
  <clear/><add name="assertions" type="SandboxAssertions, main"/>
</listeners></trace></system.diagnostics></configuration>
"""

CSHARP = LanguageSpec(
    name="csharp",
    source="main.cs",
    compile=(
        *("mcs", "-optimize", "-define:DEBUG;TRACE", "-nowarn:105"),
        *("-r:System.Numerics", "-r:System.Core", "-out:main.exe"),
        *("main.cs", ".sandbox/Assertions.cs"),
    ),
    artifacts=("main.exe",),
    run=Executable(("mono", "main.exe")),
    rewrite=with_implicit_usings,
    support={".sandbox/Assertions.cs": _FAILING_ASSERT, "main.exe.config": _LISTENERS},
    probe=Executable(("mcs", "--version")),
    environment={"MONO_GC_PARAMS": "max-heap-size={heap}m"},
    debian=(
        *("mono-mcs", "mono-runtime", "libmono-system-numerics4.0-cil"),
        "libmono-system-core4.0-cil",
    ),
    visible=("/etc/mono",),
)

D_UT = LanguageSpec(
    name="D_ut",
    source="main.d",
    compile=("dmd|ldmd2", "-unittest", "-main", "-of=main", "main.d"),
    artifacts=("main",),
    run=_PROGRAM,
    probe=Executable(("dmd|ldmd2", "--version")),
    programs=("cc",),
    debian=("ldc",),
    visible=("/etc/ldc2.conf", "/etc/dmd.conf"),
)

SWIFT = LanguageSpec(
    name="swift",
    source="main.swift",
    compile=("swiftc", "-O", "-assert-config", "Debug", "-o", "main", "main.swift"),
    artifacts=("main",),
    run=_PROGRAM,
    probe=Executable(("swiftc", "--version")),
    elsewhere="Swift from swift.org, below /usr/local",
)

VERILOG = LanguageSpec(
    name="verilog",
    source="main.sv",
    compile=(
        "iverilog",
        "-Wall",
        "-Winfloop",
        "-Wno-timescale",
        "-g2012",
        "-s{top}",
        "-o",
        "main.vvp",
        "main.sv",
    ),
    artifacts=("main.vvp",),
    run=Executable(("vvp", "-n", "main.vvp")),
    probe=Executable(("iverilog", "-V")),
    facts=verilog_names,
    debian=("iverilog",),
)

CUDA = LanguageSpec(
    name="cuda",
    source="main.cu",
    compile=("nvcc", "-std=c++17", "-O2", "-o", "main", "main.cu"),
    artifacts=("main",),
    run=_PROGRAM,
    probe=Executable(("nvcc", "--version")),
    programs=("g++",),
    elsewhere="the CUDA toolkit from developer.nvidia.com, with nvcc on the PATH",
    compiler_mb=4096,
)

# Programs can only read the prepared cache, which Go tolerates.
_GO_ENVIRONMENT = {
    "GOCACHE": "{prepared}/cache",
    "GOFLAGS": "{flags}",
    "GOMEMLIMIT": "{heap}MiB",
    "GOPROXY": "off",
    "GOTOOLCHAIN": "local",
    "GO111MODULE": "{modules}",
    "GOPATH": "/usr/share/gocode",
}
_GO_VERSION = Executable(("go", "version"))
_GO_COMPILE_TEST = ("go", "test", "-exec", "true", "-o", "main.test")
_GO_PACKAGES = (
    *("bufio", "bytes", "container/heap", "container/list", "context", "encoding/json", "errors"),
    *("fmt", "io", "math", "math/big", "math/bits", "math/rand", "net/http", "os", "reflect"),
    *("regexp", "runtime", "sort", "strconv", "strings", "sync", "sync/atomic", "testing"),
    *("text/template", "time", "unicode", "unicode/utf8"),
)
_GO_IMPORTS = "".join(f'import _ "{package}"\n' for package in _GO_PACKAGES)
_GO_PREPARATION = PreparationSpec(
    command=(*_GO_COMPILE_TEST, "all_test.go"),
    products=("cache",),
    files={"all_test.go": f"package main\n\n{_GO_IMPORTS}"},
    environment={"GOCACHE": "{work}/cache"},
)

GO = LanguageSpec(
    name="go",
    source="main.go",
    compile=("go", "build", "-ldflags=-s -w", "-o", "main", "main.go"),
    artifacts=("main",),
    run=Executable(("./main",)),
    probe=_GO_VERSION,
    environment=_GO_ENVIRONMENT,
    facts=go_names,
    debian=("golang-go",),
    preparation=_GO_PREPARATION,
)

# Compiling vets and builds the tests; they then run as `go test` runs them.
GO_TEST = LanguageSpec(
    name="go_test",
    source="main_test.go",
    compile=(*_GO_COMPILE_TEST, "{siblings}"),
    artifacts=("main.test",),
    run=Executable(("./main.test", "-test.paniconexit0")),
    probe=_GO_VERSION,
    environment=_GO_ENVIRONMENT,
    programs=("true",),
    facts=go_names,
    debian=("golang-go", "golang-github-stretchr-testify-dev"),
    preparation=_GO_PREPARATION,
)

FAMILY = (CPP, GO, GO_TEST, RUST, CSHARP, D_UT, SWIFT, VERILOG, CUDA)
