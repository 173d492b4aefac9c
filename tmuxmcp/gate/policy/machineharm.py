"""What ends the machine, and what writes to its disks past their file systems, in everyday spellings. Pure.

Tables of programs, and the few functions that read them. Reading is no harm, and neither is a file that only looks
like a disk: `fdisk -l`, `dd if=/dev/sda`, `mkfs.ext4 disk.img`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.gate.policy.commandfacts import absolute, may_be_path
from tmuxmcp.gate.policy.optionwords import Match, either, operands
from tmuxmcp.gate.policy.shelltext import SimpleCommand, Word, words_of

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


@dataclass(frozen=True)
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

DISK_VALUED = words_of("-t --type -L -U -b -i -N -O -E --label")
"""Options of these programs that take the next word, as far as it could be taken for a command or a disk."""

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
