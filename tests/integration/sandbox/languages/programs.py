"""One small program per language: it runs, fails to compile, and fails."""

from collections.abc import Mapping
from dataclasses import dataclass, field

STDIN = "41\n"
FILES = {"data.txt": "hi"}


@dataclass(frozen=True)
class Program:
    """What is run with `STDIN` and `FILES`, and ``files``.

    ``shown`` is in the output of ``code``; ``broken`` does not compile, and ``reason`` is in
    what the compiler says; ``failing`` ends with ``status``.
    """

    code: str
    shown: str
    failing: str
    status: int
    broken: str = ""
    reason: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


PROGRAMS = {
    "python": Program(
        code="print(int(input()) + 1, open('data.txt').read())",
        shown="42 hi\n",
        failing="import sys\nsys.exit(3)",
        status=3,
    ),
    "pytest": Program(
        code="def test_data():\n    assert open('data.txt').read() == 'hi'\n",
        shown="1 passed",
        failing="def test_nothing():\n    assert 1 == 2\n",
        status=1,
    ),
    "bash": Program(
        code='read number\necho "$((number + 1)) $(cat data.txt)"',
        shown="42 hi\n",
        failing="exit 3",
        status=3,
    ),
    "perl": Program(
        code='my $n = <STDIN>; open my $f, "<", "data.txt"; print $n + 1, " ", <$f>, "\\n";',
        shown="42 hi\n",
        failing="exit 3;",
        status=3,
    ),
    "ruby": Program(
        code='puts "#{gets.to_i + 1} #{File.read("data.txt")}"',
        shown="42 hi\n",
        failing="exit 3",
        status=3,
    ),
    "lua": Program(
        code='print(io.read("n") + 1, io.open("data.txt"):read("a"))',
        shown="42\thi\n",
        failing="os.exit(3)",
        status=3,
    ),
    "php": Program(
        code='echo intval(fgets(STDIN)) + 1, " ", file_get_contents("data.txt"), mb_strlen("é");',
        shown="42 hi1",
        failing="<?php exit(3);",
        status=3,
    ),
    "R": Program(
        code='n <- as.integer(readLines("stdin", 1))\n'
        'cat(n + 1, readLines("data.txt", warn=FALSE))',
        shown="42 hi",
        failing="quit(status=3)",
        status=3,
    ),
    "julia": Program(
        code='println(parse(Int, readline()) + 1, " ", read("data.txt", String))',
        shown="42 hi\n",
        failing="exit(3)",
        status=3,
    ),
    "racket": Program(
        code='#lang racket\n(printf "~a ~a\\n" (+ (read) 1) (file->string "data.txt"))',
        shown="42 hi\n",
        failing="#lang racket\n(exit 3)",
        status=3,
    ),
    "sql": Program(
        code="create table t(a, b);\ninsert into t values (41, 'x'), (1, null);\n"
        "select * from t order by a;\nselect sum(a), typeof(readfile('data.txt')) from t;",
        shown="1|\n41|x\n42|blob\n",
        failing="select 1;\nselect * from nowhere;\nselect 2;",
        status=1,
    ),
    "lean": Program(
        code="theorem two : 1 + 1 = 2 := rfl\n#eval 41 + 1",
        shown="42\n",
        failing="theorem two : 1 + 1 = 3 := rfl",
        status=1,
    ),
    "nodejs": Program(
        code="const fs = require('fs');\n"
        "console.log(parseInt(fs.readFileSync(0)) + 1, fs.readFileSync('data.txt', 'utf8'));",
        shown="42 hi\n",
        failing="process.exit(3)",
        status=3,
    ),
    "typescript": Program(
        code="import * as fs from 'fs';\nimport { successor } from './lib/numbers';\n"
        "interface Input { n: number }\nenum Kind { File = 'data.txt' }\n"
        "const input: Input = { n: parseInt(fs.readFileSync(0, 'utf8')) };\n"
        "console.log(successor(input.n), fs.readFileSync(Kind.File, 'utf8'));",
        files={"lib/numbers.ts": "export const successor = (n: number): number => n + 1;"},
        shown="42 hi\n",
        broken="const x: number = = 1;",
        reason="main.ts(1,19): error TS1109",
        failing="const code: number = 3;\nprocess.exit(code);",
        status=3,
    ),
    "jest": Program(
        code="import { successor } from './numbers';\njest.mock('./numbers');\n"
        "test('is mocked', () => {\n  (successor as jest.Mock).mockReturnValue(7);\n"
        "  expect(successor(1)).toBe(7);\n});",
        files={"numbers.ts": "export function successor(n: number): number { return n + 1; }"},
        shown="",
        failing="test('is wrong', () => { expect(1).toBe(2); });",
        status=1,
    ),
    "cpp": Program(
        code="#include <bits/stdc++.h>\nint main() {\n  int n; std::cin >> n;\n"
        '  std::string text; std::ifstream("data.txt") >> text;\n'
        "  std::thread([&] { ++n; }).join();\n"
        '  std::cout << n << " " << text << std::endl;\n}',
        shown="42 hi\n",
        broken="int main() { return nothing; }",
        reason="main.cpp:1:21: error",
        failing="int main() { return 3; }",
        status=3,
    ),
    "go": Program(
        code='package main\nimport ("fmt"; "os")\nfunc main() {\n  var n int; fmt.Scan(&n)\n'
        '  text, _ := os.ReadFile("data.txt")\n  fmt.Println(n + 1, string(text))\n}',
        shown="42 hi\n",
        broken="package main\nfunc main() { unused := 1 }",
        reason="main.go:2",
        failing='package main\nimport "os"\nfunc main() { os.Exit(3) }',
        status=3,
    ),
    "go_test": Program(
        code='package main\nimport "testing"\nfunc TestSuccessor(t *testing.T) {\n'
        "  if Successor(41) != 42 { t.Fatal() }\n}",
        files={"numbers.go": "package main\nfunc Successor(n int) int { return n + 1 }"},
        shown="PASS\n",
        broken='package main\nimport "testing"\nfunc TestX(t *testing.T) { nothing() }',
        reason="undefined: nothing",
        failing='package main\nimport "testing"\nfunc TestX(t *testing.T) { t.Fatal("no") }',
        status=1,
    ),
    "rust": Program(
        code="use std::io;\nfn main() {\n  let mut line = String::new();\n"
        "  io::stdin().read_line(&mut line).unwrap();\n"
        "  let n: i32 = line.trim().parse().unwrap();\n"
        '  println!("{} {}", n + 1, std::fs::read_to_string("data.txt").unwrap());\n}',
        shown="42 hi\n",
        broken='fn main() { let x: i32 = "text"; }',
        reason="error[E0308]",
        failing='fn main() { let n: Vec<i32> = vec![]; println!("{}", n[n.len()]); }',
        status=101,
    ),
    "csharp": Program(
        code="using System; using System.IO; using System.Linq; using System.Numerics;\n"
        "class Program { static void Main() {\n  var n = int.Parse(Console.ReadLine());\n"
        "  var sum = Enumerable.Repeat(new BigInteger(1), n + 1).Aggregate(BigInteger.Add);\n"
        '  Console.WriteLine(sum + " " + File.ReadAllText("data.txt"));\n} }',
        shown="42 hi\n",
        broken="class Program { static void Main() { int x = nothing; } }",
        reason="error CS0103",
        failing="class Program { static int Main() { return 3; } }",
        status=3,
    ),
    "D_ut": Program(
        code="import std.stdio, std.file, std.string, std.conv;\n"
        "unittest { assert(readln().strip.to!int + 1 == 42); writeln(readText("
        '"data.txt")); }',
        shown="hi\n",
        broken="unittest { nothing(); }",
        reason="undefined identifier",
        failing="unittest { assert(1 == 2); }",
        status=1,
    ),
    "swift": Program(
        code='print(Int(readLine()!)! + 1, "hi")',
        shown="42 hi\n",
        broken="let x: Int = nothing",
        reason="nothing",
        failing="import Foundation\nexit(3)",
        status=3,
    ),
    "verilog": Program(
        code="module successor(input [7:0] n, output [7:0] m); assign m = n + 1; endmodule\n"
        "module tb; reg [7:0] n; wire [7:0] m; successor s(n, m);\n"
        '  initial begin n = 41; #1 $display("%0d", m); $finish; end\nendmodule',
        shown="42\n",
        broken="module tb; nothing nowhere(); endmodule",
        reason="nothing",
        failing='module tb; initial $fatal(1, "no"); endmodule',
        status=1,
    ),
    "cuda": Program(
        code='#include <cstdio>\nint main() { int n; std::scanf("%d", &n); '
        'std::printf("%d\\n", n + 1); }',
        shown="42\n",
        broken="int main() { return nothing; }",
        reason="nothing",
        failing="int main() { return 3; }",
        status=3,
    ),
    "java": Program(
        code="import java.nio.file.*;\nimport java.util.*;\n"
        "public class Solution {\n  public static void main(String[] args) throws Exception {\n"
        "    int n = new Scanner(System.in).nextInt();\n"
        '    Files.createTempFile("a", "b");\n'
        '    String text = Files.readString(Path.of("data.txt"));\n'
        '    System.out.println(Numbers.successor(n) + " " + text);\n  }\n}',
        files={"Numbers.java": "class Numbers { static int successor(int n) { return n + 1; } }"},
        shown="42 hi\n",
        broken="class Main { int x = nothing; }",
        reason="Main.java:1: error",
        failing="class Main { public static void main(String[] args) { assert args.length > 0; } }",
        status=1,
    ),
    "junit": Program(
        code="import static org.junit.jupiter.api.Assertions.*;\nimport org.junit.jupiter.api.*;\n"
        "public class NumbersCheck {\n"
        "  @Test void succeeds() { assertEquals(42, Numbers.successor(41)); }\n"
        "  @org.junit.Test public void isOfJUnit4() { org.junit.Assert.assertTrue(true); }\n}",
        files={"Numbers.java": "class Numbers { static int successor(int n) { return n + 1; } }"},
        shown="2 tests successful",
        broken="class ATest { @Test void nothing() {} }",
        reason="cannot find symbol",
        failing="import org.junit.jupiter.api.*;\n"
        "class ATest { @Test void fails() { Assertions.fail(); } }",
        status=1,
    ),
    "scala": Program(
        code="object Solution {\n  def main(args: Array[String]): Unit = {\n"
        "    val n = scala.io.StdIn.readInt()\n"
        '    println(s"${n + 1} ${scala.io.Source.fromFile("data.txt").mkString}")\n  }\n}',
        shown="42 hi\n",
        broken="object Main { val x: Int = nothing }",
        reason="not found: value nothing",
        failing="object Main extends App { sys.exit(3) }",
        status=3,
    ),
    "kotlin_script": Program(
        code="import java.io.File\n"
        'println("${readLine()!!.toInt() + 1} ${File("data.txt").readText()}")',
        shown="42 hi\n",
        failing="System.exit(3)",
        status=3,
    ),
    "python_gpu": Program(
        code="import ctypes\ncount = ctypes.c_int()\ncuda = ctypes.CDLL('libcuda.so.1')\n"
        "print(cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count)), count.value > 0)",
        shown="0 0 True\n",
        failing="import sys\nsys.exit(3)",
        status=3,
    ),
}

COMPILED = [name for name, program in PROGRAMS.items() if program.broken]
