"""Languages of the Java virtual machine.

Compilers are short-lived and skip the optimizing JIT; programs use it.
"""

from services.sandbox.execution import Executable
from services.sandbox.languages.code import java_names, scala_names
from services.sandbox.languages.declaration import LanguageSpec, PreparationSpec

# The JVM takes neither TMPDIR nor the sandbox's limits from its environment.
_PROGRAM = (
    "-Xmx{heap}m",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Djava.io.tmpdir=.",
)
_COMPILER = (*_PROGRAM, "-XX:TieredStopAtLevel=1")
_JAVAC = ("javac", *(f"-J{option}" for option in _COMPILER))
_ARCHIVE = "-J-XX:SharedArchiveFile={prepared}/javac.jsa"
_CLASSES = ("*.class", "**/*.class")
_VISIBLE = ("/etc/java-*-openjdk",)
_JDK = "default-jdk-headless"

_HELLO = """\
import java.util.*;
import java.util.function.*;
import java.util.stream.*;

public class Hello {
    record Pair(String name, int count) {}

    public static void main(String[] arguments) {
        Map<String, Integer> counts = new TreeMap<>();
        for (String word : new Scanner(System.in).nextLine().split(" ")) {
            counts.merge(word, 1, Integer::sum);
        }
        List<Pair> pairs = counts.entrySet().stream()
            .map(entry -> new Pair(entry.getKey(), entry.getValue()))
            .sorted(Comparator.comparingInt(Pair::count)).collect(Collectors.toList());
        for (Pair pair : pairs) System.out.println(pair.name() + " " + pair.count());
    }
}
"""

_CLASS_PATH = ".:*:/usr/share/java/javatuples.jar"
# `*` matches jars among the program's own files.
JAVA = LanguageSpec(
    name="java",
    source="{file}.java",
    compile=(*_JAVAC, _ARCHIVE, "-encoding", "UTF-8", "-cp", _CLASS_PATH, "-d", ".", "{file}.java"),
    artifacts=_CLASSES,
    run=Executable(("java", *_PROGRAM, "-ea", "-cp", _CLASS_PATH, "{main}")),
    probe=Executable(("javac", "-version")),
    facts=java_names,
    debian=(_JDK, "libjavatuples-java"),
    visible=_VISIBLE,
    preparation=PreparationSpec(
        command=("javac", "-J-XX:ArchiveClassesAtExit=javac.jsa", "Hello.java"),
        products=("javac.jsa",),
        files={"Hello.java": _HELLO},
    ),
)

# The version is in the name of the jar only.
_JUNIT_VERSION = """\
public class Version {
    public static void main(String[] arguments) {
        Class<?> launcher = org.junit.platform.console.ConsoleLauncher.class;
        System.out.println(launcher.getProtectionDomain().getCodeSource().getLocation());
    }
}
"""
_JUNIT_JAR = "java/junit-platform-console-standalone-*.jar"
_JUNIT_PATH = ":".join(
    (_CLASS_PATH, "{junit}", "/usr/share/java/junit4.jar", "/usr/share/java/hamcrest-core.jar")
)

JUNIT = LanguageSpec(
    name="junit",
    source="{file}.java",
    compile=(*_JAVAC, _ARCHIVE, "-encoding", "UTF-8", "-cp", _JUNIT_PATH, "-d", ".", "{sources}"),
    artifacts=_CLASSES,
    run=Executable(
        (
            "java",
            *_PROGRAM,
            "-ea",
            "-cp",
            _JUNIT_PATH,
            "org.junit.platform.console.ConsoleLauncher",
            "--scan-class-path=.",
            "--include-classname=.*",
            "--fail-if-no-tests",
            "--disable-banner",
            "--disable-ansi-colors",
        )
    ),
    probe=Executable(("java", "-cp", "{junit}", "Version.java")),
    probe_files={"Version.java": _JUNIT_VERSION},
    facts=java_names,
    programs=("javac",),
    present={"junit": f"/usr/local/share/{_JUNIT_JAR}|/usr/share/{_JUNIT_JAR}"},
    debian=(_JDK, "junit5", "junit4", "libjavatuples-java"),
    visible=_VISIBLE,
    preparation=JAVA.preparation,
)

_SCALAC = ("scalac", "-J-XX:TieredStopAtLevel=1")
_HELLO_SCALA = """\
case class Pair(name: String, count: Int)

object Hello {
  def main(arguments: Array[String]): Unit = {
    val words = scala.io.StdIn.readLine().split(" ").toList
    val pairs = words.groupBy(identity).map { case (name, all) => Pair(name, all.size) }
    for (pair <- pairs.toSeq.sortBy(_.count)) println(s"${pair.name} ${pair.count}")
  }
}
"""

SCALA = LanguageSpec(
    name="scala",
    source="main.scala",
    compile=(
        *_SCALAC,
        "-J-XX:SharedArchiveFile={prepared}/scalac.jsa",
        *("-encoding", "UTF-8", "-d", ".", "main.scala"),
    ),
    artifacts=_CLASSES,
    run=Executable(("scala", "-cp", ".", "{main}")),
    probe=Executable(("scalac", "-version")),
    facts=scala_names,
    environment={"JAVA_OPTS": " ".join((*_PROGRAM, "-Xss8m"))},
    programs=("java",),
    debian=("scala", _JDK),
    visible=_VISIBLE,
    preparation=PreparationSpec(
        command=(*_SCALAC, "-J-XX:ArchiveClassesAtExit=scalac.jsa", "Hello.scala"),
        products=("scalac.jsa",),
        files={"Hello.scala": _HELLO_SCALA},
    ),
)

KOTLIN_SCRIPT = LanguageSpec(
    name="kotlin_script",
    source="main.kts",
    run=Executable(("kotlinc", "-Xassertions=always-enable", "-script", "main.kts")),
    probe=Executable(("kotlinc", "-version")),
    # Its launcher passes an option that would print a warning into every program's output.
    environment={"JAVA_OPTS": " ".join((*_COMPILER, "-XX:-PrintWarnings"))},
    programs=("java",),
    debian=("kotlin", _JDK),
    visible=_VISIBLE,
)

FAMILY = (JAVA, JUNIT, SCALA, KOTLIN_SCRIPT)
