"""What a command does, in whatever spelling: the condition `does` of the policy's rules. Pure.

A program's own rules for its options are followed: clusters, abbreviations, options behind operands, and `--`.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tmuxmcp.contract.value import value
from tmuxmcp.gate.policy.shelltext import GLOB, TEXT_SHELLS, SimpleCommand, Word, words_of
from tmuxmcp.gate.policy.wrappers import basename, takes_value

# ---- What ends the machine -------------------------------------------------------------------------------------------
#
# And what writes to its disks past their file systems, in everyday spellings. Pure.
#
# Tables of programs, and the few functions that read them. Reading is no harm, and neither is a file that only looks
# like a disk: `fdisk -l`, `dd if=/dev/sda`, `mkfs.ext4 disk.img`.

POWER_PROGRAMS = words_of("shutdown reboot halt poweroff init telinit kexec killall5 pm-suspend pm-hibernate")

POWER_VERBS = words_of(
    "poweroff reboot halt kexec soft-reboot exit switch-root suspend hibernate hybrid-sleep suspend-then-hibernate "
    "sleep rescue emergency"
)
"""Of `systemctl` and `loginctl`."""

POWER_UNITS = re.compile(
    r"(?:poweroff|reboot|halt|kexec|soft-reboot|exit|shutdown|final|umount|suspend|hibernate|hybrid-sleep|sleep|"
    r"suspend-then-hibernate|rescue|emergency|ctrl-alt-del|runlevel[016])\.target"
    r"|systemd-(?:poweroff|reboot|halt|kexec|soft-reboot|exit|suspend|hibernate|hybrid-sleep)\.service"
)
STARTING_VERBS = words_of("start restart isolate enable set-default reload-or-restart try-restart default")
"""Verbs of `systemctl` with which a unit that ends the machine does so, now or at the next boot."""

SYSTEMCTL_VALUED = words_of(
    "-t --type -p --property -P -s --signal -n --lines -o --output -M --machine -H --host -C --capsule --root --image "
    "--state --kill-whom --kill-who --kill-value --job-mode --what --when --message --check-inhibitors "
    "--reboot-argument --boot-loader-entry --boot-loader-menu --preset-mode --timestamp --drop-in --image-policy"
)

BUS_PROGRAMS = words_of("busctl dbus-send gdbus qdbus qdbus6 qdbus-qt5")
BUS_METHODS = re.compile(
    r"(?:.*[./])?(?:(?:PowerOff|Reboot|Halt|Suspend|Hibernate|HybridSleep|SuspendThenHibernate|Sleep)(?:WithFlags)?|KExec|"
    r"SoftReboot|ScheduleShutdown|Shutdown|EmergencyReboot)"
)
"""Methods of login1, systemd1 and desktops' session managers, with their interface or without."""

POWER_FILES = ("/proc/sysrq-trigger", "/sys/power/state", "/dev/watchdog*", "/dev/port")

DISKS = tuple(
    f"/dev/{name}"
    for name in words_of(
        "sd* hd* vd* xvd* nvme* mmcblk* mtd* pmem* dasd* nbd* rbd* drbd* bcache* dm-* md[0-9]* md/* mapper/[!c]* "
        "disk/* block/* zd* zvol/* zram* sr[0-9]* sg[0-9]* mem kmem disk[0-9]* rdisk[0-9]* ada* nda* nvd*"
    )
)
"""Disks, what is made of disks, and memory; the last five are those of macOS and the BSDs."""


@value
class DiskProgram:
    """When a program that works on disks writes to them. Words are patterns, with blanks between."""

    writes: str = ""
    """With one of these it does."""
    looks: str = ""
    """Else with one of these it does not."""
    otherwise: bool = False
    """Else it does, or does not."""
    anywhere: bool = False
    """Whatever it names is on disks: a volume, a pool."""


_WRITER = DiskProgram(otherwise=True)
DISK_PROGRAMS = {
    **dict.fromkeys(
        ("mkfs", "mkfs.*", "mke2fs", "mkswap", "mkdosfs", "mkntfs", "mkexfatfs", "mkudffs", "newfs*"), _WRITER
    ),
    **dict.fromkeys(
        ("blkdiscard", "shred", "scrub", "nwipe", "wipe", "growpart", "pvcreate", "pvremove", "cgdisk"), _WRITER
    ),
    **dict.fromkeys(("vgcreate", "vgremove", "vgextend", "vgreduce"), DiskProgram(otherwise=True, anywhere=True)),
    **dict.fromkeys(("lvcreate", "lvremove", "lvextend", "lvreduce"), DiskProgram(otherwise=True, anywhere=True)),
    **dict.fromkeys(("lvresize", "pvresize", "pvmove"), DiskProgram(otherwise=True, anywhere=True)),
    "cfdisk": DiskProgram(otherwise=True, anywhere=True, looks="-r --read-only -h --help -V --version"),
    "fdisk": DiskProgram(otherwise=True, looks="-l* --list* -x -s --getsz"),
    "sfdisk": DiskProgram(
        otherwise=True,
        looks="-l --list -d --dump -J --json -s --show-size -F --list-free -T --list-types -V -n --no-act",
    ),
    "gdisk": DiskProgram(otherwise=True, looks="-l"),
    "sgdisk": DiskProgram(
        writes="-[acdeghjklmnorstuzAGNRTUZ]* --zap* --clear --new* --delete* --typecode* --change-name* --mbrtogpt "
        "--randomize-guids --replicate* --load-backup* --sort --transpose* --attributes* --partition-guid* --disk-guid*"
    ),
    "parted": DiskProgram(
        otherwise=True,
        writes="mk* rm resc* res* name set disk_* tog* mov* cp type",
        looks="-l --list p print print* unit help quit version align-check -h --help -v --version",
    ),
    "wipefs": DiskProgram(writes="-a* -[fq]*a* --all -o* --offset*"),
    "cryptsetup": DiskProgram(writes="luksFormat erase luksErase reencrypt luksKillSlot luksHeaderRestore"),
    "nvme": DiskProgram(writes="format sanitize write write-* create-ns delete-ns dsm fw-download fw-commit"),
    "hdparm": DiskProgram(
        writes="--security-* --sanitize-* --trim-sector* --write-sector --repair-sector --make-bad-sector --fwdownload*"
    ),
    "badblocks": DiskProgram(writes="-w* -n* -[!-]*[wn]*"),
    "mdadm": DiskProgram(
        anywhere=True,
        writes="-C --create -B --build -G --grow -S --stop -r --remove -f --fail -a --add --zero-superblock",
    ),
    "zpool": DiskProgram(anywhere=True, writes="create destroy add attach detach replace remove split labelclear"),
    "zfs": DiskProgram(anywhere=True, writes="destroy"),
    "dmsetup": DiskProgram(anywhere=True, writes="create remove remove_all wipe_table load reload"),
    "diskutil": DiskProgram(
        anywhere=True,
        writes="erase* zeroDisk randomDisk secureErase partitionDisk reformat splitPartition mergePartitions",
    ),
}
"""By the name of the program, as a pattern."""

OPTION_WRITERS = {
    "curl": ("o", "--output"),
    "wget": ("O", "--output-document"),
    "pv": ("o", "--output"),
    "sort": ("o", "--output"),
}
"""Programs that write the file which an option names."""

UNTOLD_DEVICE = re.compile(r"['\"]*(?:of=['\"]*\$|(?:of=['\"]*)?/dev/(?!null|zero|fd/|tcp/|udp/|shm/|pts/|tty|std))")
"""How a word is written that cannot be known and may be a disk."""


# ---- the machine's end -----------------------------------------------------------------------------


def ends_machine(name: str, command: SimpleCommand) -> Match:
    """Whether a command ends the machine, puts it to sleep, or ends all that runs on it."""
    if name in POWER_PROGRAMS:
        return True
    check = _POWER_CHECKS.get(name)
    return either(check(command.argv[1:]) if check else False, _writes(name, command, POWER_FILES))


def _systemctl(words: Sequence[Word]) -> Match:
    at = 0
    while at < len(words):
        word = words[at]
        if word is None:
            return None
        if not word.startswith("-"):
            break
        at += 2 if word in SYSTEMCTL_VALUED else 1
    verb, *units = words[at:] or ("",)
    if verb in POWER_VERBS:
        return not (verb == "exit" and "--user" in words)
    return verb in STARTING_VERBS and any(
        unit and POWER_UNITS.fullmatch(unit if "." in unit else f"{unit}.target") for unit in units
    )


def _bus(words: Sequence[Word]) -> Match:
    return any(word and BUS_METHODS.fullmatch(word) for word in words)


def _kill(words: Sequence[Word]) -> Match:
    """A signal to process 1, or to all processes; 0 is none, and `-l` only lists."""
    rest, signal = list(words), ""
    while rest and (option := rest[0]) and option.startswith("-") and option != "--" and not signal:
        del rest[0]
        if option in ("-l", "-L", "--list", "--table"):
            return False
        if option in ("-s", "-n", "--signal"):
            signal = (rest.pop(0) if rest else None) or "?"
        else:
            signal = option.lstrip("-").removeprefix("signal=")
    return signal != "0" and any(word in ("1", "-1") for word in rest)


def _rtcwake(words: Sequence[Word]) -> Match:
    return not any(word and re.fullmatch(r"(?:-m|--mode=)?(?:no|on|disable|show)", word) for word in words)


_POWER_CHECKS: dict[str, Callable[[Sequence[Word]], Match]] = {
    "systemctl": _systemctl,
    "loginctl": _systemctl,
    **dict.fromkeys(BUS_PROGRAMS, _bus),
    "kill": _kill,
    "rtcwake": _rtcwake,
}


# ---- disks -----------------------------------------------------------------------------------------


def writes_disk(name: str, command: SimpleCommand) -> Match:
    """Whether a command writes to a disk past its file systems, or changes how disks are divided."""
    match = _writes(name, command, DISKS)
    for pattern, program in DISK_PROGRAMS.items():
        if fnmatch.fnmatchcase(name, pattern) and _works(program, command.argv[1:]):
            match = either(match, program.anywhere or _named(command.argv[1:], command, DISKS))
    return match


def _works(program: DiskProgram, words: Sequence[Word]) -> bool:
    for patterns, works in ((program.writes, True), (program.looks, False)):
        if any(word and fnmatch.fnmatchcase(word, each) for word in words for each in patterns.split()):
            return works
    return program.otherwise


# ---- files that are written ------------------------------------------------------------------------


def _writes(name: str, command: SimpleCommand, patterns: Sequence[str]) -> Match:
    """Whether a command writes to one of these files: by a redirection, or as the program does.

    What cannot be known counts as one where it is written as the path of a device is.
    """
    match = _named([*command.written, *_outputs(name, command.argv[1:])], command, patterns)
    return match if match is not None or any(map(UNTOLD_DEVICE.match, command.untold)) else False


def _outputs(name: str, words: Sequence[Word]) -> Iterator[Word]:
    """Words that name what a program writes."""
    if name in ("dd", "dcfldd"):
        yield from (word and word.removeprefix("of=") for word in words if word is None or word.startswith("of="))
    elif name in ("tee", "sponge", "truncate"):
        yield from operands(words)
    elif name in ("cp", "mv", "install", "ddrescue"):
        yield from [*operands(words)][1:]  # the last is the target; with -t it stands elsewhere
    elif name in OPTION_WRITERS:
        letter, long = OPTION_WRITERS[name]
        for at, word in enumerate(words):
            if found := re.fullmatch(rf"(?:-\w*?{letter}|{long}(?:=|(?!.)))(.*)", word or "", re.DOTALL):
                yield from [found[1]] if found[1] else words[at + 1 : at + 2]


def _named(words: Iterable[Word], command: SimpleCommand, patterns: Sequence[str]) -> Match:
    """Whether one of these words is a path among patterns; of an unknown directory, its name in /dev counts."""
    match: Match = False
    for word in words:
        for path in absolute(word, tuple(cwd or "/dev" for cwd in command.cwds)):
            is_one = None if path is None else any(may_be_path(path, pattern) for pattern in patterns)
            match = either(match, is_one)
    return match


# ----------------------------------------------------------------------------------------------------------------------

GIT_VALUED = words_of("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source")
"""Options of git itself that take the next word."""

PUSH_VALUED = words_of("-o --push-option --repo --receive-pack --exec")
"""Options of `git push` that take the next word."""

DOWNLOADERS = words_of(
    "curl wget wget2 fetch http https httpie xh aria2c axel lynx links elinks w3m GET lwp-request lwp-download "
    "nc ncat netcat socat telnet ftp lftp"
)
"""Programs that bring what another machine sends."""

INTERPRETERS: Mapping[str, str] = {
    **dict.fromkeys(("python", "python2", "python3", "pypy", "pypy3"), "cm"),
    **dict.fromkeys(("perl", "ruby"), "eE"),
    **dict.fromkeys(("node", "nodejs", "bun", "lua", "Rscript"), "ep"),
    "php": "rBRE",
}
"""Programs that run what they read, and the letters of options by which they get their program elsewhere."""

STANDARD_INPUT_PATHS = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")


def match_meaning(name: str, command: SimpleCommand) -> Match:
    """Whether a command does what a meaning says; None when that hangs on what cannot be known."""
    if command.program is None:
        return None
    return MEANINGS[name](basename(command.program) or "", command)


# ---- rm, recursive and forced --------------------------------------------------------------------


def _removes_tree(name: str, command: SimpleCommand) -> Match:
    if name != "rm":
        return False
    recursive: Match = False
    forced: Match = False
    for option in options(command.argv[1:]):
        recursive = either(recursive, is_option(option, "rR", "--recursive"))
        forced = either(forced, is_option(option, "f", "--force"))
    return both(recursive, forced)


# ---- a forced push ---------------------------------------------------------------------------------


def _pushes_by_force(name: str, command: SimpleCommand) -> Match:
    words: Sequence[Word] = command.argv[1:]
    if name == "git":
        subcommand, words = _git(words)
        if subcommand != "push":
            return subcommand if subcommand is None else False
    elif name != "git-push":
        return False
    match: Match = False
    for option in options(words, PUSH_VALUED):
        # --force-with-lease and --force-if-includes as well; they have --force for a beginning.
        long = option is not None and option.startswith("--force-")
        mirrors = is_option(option, "", "--mirror")
        match = either(match, either(long or mirrors, is_option(option, "f", "--force")))
    for word in operands(words, PUSH_VALUED):
        match = either(match, None if word is None else word.startswith("+"))
    return match


def _git(words: Sequence[Word]) -> tuple[Word, Sequence[Word]]:
    """The subcommand of git, and what follows it; None where it may be any."""
    at = 0
    while at < len(words):
        word = words[at]
        if word is None:
            return None, ()
        if not word.startswith("-"):
            return word, words[at + 1 :]
        value = words[at + 1] if at + 1 < len(words) else ""
        if word == "-c" and (value is None or value.lower().startswith("alias.")):
            return None, ()
        if word.startswith("--config-env"):
            return None, ()
        at += 2 if word in GIT_VALUED else 1
    return "", ()


# ---- a download that is run ------------------------------------------------------------------------


def _runs_download(name: str, command: SimpleCommand) -> Match:
    """Whether a shell or an interpreter gets its commands from the network: by a pipe, `<(...)`, `$(...)`."""
    if not _is_interpreter(name):
        return False
    from_network = _gets_download(command)
    return False if from_network is False else both(from_network, _reads_program(name, command.argv[1:]))


def _is_interpreter(name: str) -> bool:
    return name in TEXT_SHELLS or name in ("eval", "source", ".") or _bare(name) in INTERPRETERS


def _bare(name: str) -> str:
    """`python3.12` is Python."""
    return re.sub(r"(?<=\d)\.[\d.]+\Z", "", name)


def _gets_download(command: SimpleCommand) -> Match:
    match: Match = any(file is not None and NETWORK_DEVICE.match(file) is not None for file in command.files)
    for each in command.gets:
        match = either(match, None if each.program is None else _downloads(each))
    return match


def _downloads(command: SimpleCommand) -> bool:
    read = any(file is not None and NETWORK_DEVICE.match(file) is not None for file in command.files)
    return read or basename(command.program) in DOWNLOADERS


def _reads_program(name: str, words: Sequence[Word]) -> Match:
    """Whether what such a command gets from elsewhere is its program, and not data for one that is written out."""
    if name in ("eval", "source", "."):
        return any(word is None or word in STANDARD_INPUT_PATHS for word in words)
    at = 0
    while at < len(words):
        word = words[at]
        if word is None or word in STANDARD_INPUT_PATHS:
            return True  # a substitution, or standard input by its name
        if name in TEXT_SHELLS:
            if re.match(r"-\w*c\w*\Z", word) or word in ("--command", "--init-command"):
                return None in words[at + 1 :] or any("{}" in (each or "") for each in words[at + 1 :])
            if re.match(r"-\w*s\w*\Z", word):
                return True
            at += takes_value(word)
        elif _gives_program(_bare(name), word):
            return None in words[at + 1 : at + 2]
        if not word.startswith(("-", "+")):
            return False  # a script
        at += 1
    return True


def _gives_program(name: str, option: str) -> bool:
    """Whether an option brings the program: `-c TEXT`, `-m MODULE`, `-lane TEXT`."""
    if option.startswith("--"):
        return option.startswith(("--eval", "--print", "--run", "--process"))
    return bool(re.match(rf"-\w*[{INTERPRETERS[name]}]", option))


MEANINGS: dict[str, Callable[[str, SimpleCommand], Match]] = {
    "remove-tree": _removes_tree,
    "force-push": _pushes_by_force,
    "run-download": _runs_download,
    "end-machine": ends_machine,
    "write-disk": writes_disk,
}
"""What the condition `does` can name."""


# ---- Options and operands among the words of a command, and what is known of a match. Pure ---------------------------

Match = bool | None
"""None: it cannot be told."""


def options(words: Sequence[Word], valued: frozenset[str] = frozenset()) -> Iterator[Word]:
    """The options among words, and what may be one; operands may stand between them."""
    for word, is_operand in _told_apart(words, valued):
        if not is_operand:
            yield word


def operands(words: Sequence[Word], valued: frozenset[str] = frozenset()) -> Iterator[Word]:
    for word, is_operand in _told_apart(words, valued):
        if is_operand:
            yield word


def _told_apart(words: Sequence[Word], valued: frozenset[str]) -> Iterator[tuple[Word, bool]]:
    """Each word, and whether it is an operand for sure, known or not; values of options are left out."""
    at, ended = 0, False
    while at < len(words):
        word = words[at]
        if ended:
            yield word, True
        elif word == "--":
            ended = True
        elif word is None:
            yield None, False
        elif word in valued:
            at += 1
        else:
            yield word, not (word.startswith("-") and len(word) > 1)
        at += 1


def is_option(word: Word, letters: str, long: str) -> Match:
    """Whether a word has one of the letters in a cluster, or is a long option, perhaps cut short."""
    if word is None:
        return None
    if word.startswith("--"):
        given = word.partition("=")[0]
        return len(given) > 2 and long.startswith(given)
    return any(letter in word[1:] for letter in letters)


def either(one: Match, other: Match) -> Match:
    return True if one is True or other is True else (None if one is None or other is None else False)


def both(one: Match, other: Match) -> Match:
    return False if one is False or other is False else (None if one is None or other is None else True)


# ---- Which files and hosts a simple command names, as far as its words tell. Pure ------------------------------------

NOT_FILES = words_of(
    "echo printf test [ [[ export set unset local declare typeset readonly return exit shift read true false : let "
    "wait jobs kill pwd type hash alias unalias eval trap expr seq sleep date"
)
"""Programs whose words are no files: an expansion among them is no reason to ask."""

NETWORK_PROGRAMS = words_of(
    "ssh scp sftp rsync mosh telnet ftp nc ncat netcat socat curl wget ping dig host nslookup git lftp http https xh "
    "openssl rclone kubectl"
)
"""Programs of which a word that cannot be known may be a host."""

FIRST_OPERAND = words_of("ssh mosh telnet ftp sftp nc ncat netcat ping")
"""Programs whose first operand is a host, perhaps as USER@HOST."""

URL_OPERAND_PROGRAMS = words_of("curl wget http https xh dig host nslookup")
"""Programs whose operands are URLs, where the scheme may be left out."""

OPTIONS_WITH_VALUE = words_of("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -P -Q -R -S -W -w -B -H -d -X -u -A -x")
"""Options of these programs that take the next word."""

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/@\s]*@)?(\[[^\]]+\]|[^/:?#\s]+)")
REMOTE_PATH = re.compile(r"(?:[\w.-]+@)?(\[[^\]]+\]|[\w.-]+):(?!//)")
NETWORK_DEVICE = re.compile(r"/dev/(?:tcp|udp)/([^/]+)/")


def paths_of(command: SimpleCommand) -> Iterator[Word]:
    """Absolute paths that a command names; None for one that cannot be known.

    Any word may be a file: of an option what stands behind `=`, or from its first slash on.
    """
    words: list[Word] = list(command.files)
    if command.argv == (None,):
        yield None
    if command.program and "/" in command.program:
        words.append(command.program)
    if basename(command.program) not in NOT_FILES:
        for word in command.argv[1:]:
            words += [None] if word is None else _files_in(word)
    for word in words:
        yield from absolute(word, command.cwds)


def absolute(word: Word, cwds: tuple[str | None, ...]) -> Iterator[Word]:
    """The absolute paths that a word can name; None: not known."""
    if word is None:
        yield None
    elif os.path.isabs(word):
        yield os.path.normpath(word).replace("//", "/")
    else:
        yield from (os.path.normpath(os.path.join(cwd, word)) if cwd else None for cwd in cwds)


def _files_in(word: str) -> list[Word]:
    if URL.match(word) or not word:
        return []
    _, equals, value = word.partition("=")
    if word.startswith("-"):
        return [value] if equals and value else [word[word.index("/") :]] if "/" in word else []
    return [word, value] if equals and value else [word]


def is_path(value: str, pattern: str) -> bool:
    """A pattern that ends with `/*` means the directory, too."""
    return fnmatch.fnmatchcase(value, pattern) or (pattern.endswith("/*") and value == pattern[:-2])


def may_be_path(value: str, pattern: str) -> bool:
    """The same, where a glob of the shell's may stand for anything that begins and ends as it does."""
    if is_path(value, pattern):
        return True
    if not GLOB.search(value):
        return False
    begin, end = _literal_ends(value)
    first, last = _literal_ends(pattern.replace("[*]", "\\*"))
    if first == last and not GLOB.search(first):  # the pattern is no glob itself
        return first.startswith(begin) and first.endswith(end)
    return (first.startswith(begin) or begin.startswith(first)) and (last.endswith(end) or end.endswith(last))


def _literal_ends(pattern: str) -> tuple[str, str]:
    """What stands before the first and behind the last special character."""
    parts = GLOB.split(pattern)
    return parts[0].replace("\\", ""), parts[-1].rpartition("]")[2].replace("\\", "")


def hosts_of(command: SimpleCommand) -> Iterator[Word]:
    """Hosts that a command names; None for one that cannot be known."""
    name = basename(command.program)
    if name is None:
        yield None
        return
    for word in (*command.files, *command.argv[1:]):
        if word is None:
            if name in NETWORK_PROGRAMS:
                yield None
            continue
        for found in (URL.match(word), URL.search(word.partition("=")[2]), NETWORK_DEVICE.match(word)):
            if found:
                yield found[1]
    yield from _named_hosts(name, command.argv[1:])


def _named_hosts(name: str, words: tuple[Word, ...]) -> Iterator[str]:
    operands = _operands(words)
    if name in FIRST_OPERAND:
        operands = operands[:1]
    elif name in ("scp", "rsync", "git", "sftp"):
        yield from (found[1] for word in operands if (found := REMOTE_PATH.match(word)))
        return
    elif name not in URL_OPERAND_PROGRAMS:
        return
    for word in operands:
        if not URL.match(word):
            yield re.split(r"[/:?#]", word.rpartition("@")[2])[0]


def _operands(words: tuple[Word, ...]) -> list[str]:
    found, skip = [], False
    for word in words:
        if skip or word is None:
            skip = False
        elif word in OPTIONS_WITH_VALUE:
            skip = True
        elif not word.startswith(("-", "+", "@")):
            found.append(word)
    return found
