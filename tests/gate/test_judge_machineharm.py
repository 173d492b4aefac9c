"""What the tier `standard` promises: the machine stays up, and nothing goes past its file systems."""

from __future__ import annotations

from tests.conftest import Parsed
from tmuxmcp.gate.policy.judge import Action, judge, parse_policy

ENDS = r"""
poweroff
/sbin/reboot
halt -p
shutdown -h now
shutdown -r +5
init 0
init 6
telinit 1
kexec -e
killall5 -9
pm-suspend
systemctl poweroff
systemctl reboot
systemctl halt
systemctl kexec
systemctl soft-reboot
systemctl suspend
systemctl hibernate
systemctl hybrid-sleep
systemctl suspend-then-hibernate
systemctl sleep
systemctl rescue
systemctl emergency
systemctl exit
systemctl -i poweroff
systemctl --force --force reboot
systemctl -ff reboot
systemctl --no-block reboot
systemctl -M box poweroff
systemctl --message 'good night' poweroff
systemctl reboot --firmware-setup
systemctl isolate poweroff.target
systemctl isolate rescue
systemctl isolate runlevel0.target
systemctl start reboot.target
systemctl --no-block start shutdown.target
systemctl start ctrl-alt-del.target
systemctl start systemd-poweroff.service
systemctl enable --now poweroff.target
systemctl set-default rescue.target
/usr/bin/systemctl reboot
systemctl "reboot"
systemctl 2>/dev/null reboot
systemctl re\boot
systemctl $VERB
loginctl poweroff
loginctl reboot
loginctl suspend
busybox poweroff -f
busybox reboot
toybox reboot
env X=1 nohup systemctl reboot
timeout 5 systemctl poweroff
sh -c 'systemctl poweroff'
bash -c "sleep 1; reboot"
nohup bash -c 'sleep 5; systemctl reboot' >/dev/null 2>&1 &
ssh host systemctl reboot
ssh host 'sudo reboot'
true && systemctl reboot
$(systemctl reboot)
echo systemctl reboot | sh
eval "systemctl reboot"
systemd-run --on-active=5 systemctl reboot
dbus-send --system --dest=org.freedesktop.login1 /x org.freedesktop.login1.Manager.PowerOff boolean:true
dbus-send --dest=org.freedesktop.login1 /org/freedesktop/login1 'org.freedesktop.login1.Manager.Reboot' boolean:false
busctl call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager PowerOff b true
busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager Reboot
gdbus call -y -d org.freedesktop.login1 -o /org/freedesktop/login1 -m org.freedesktop.login1.Manager.Suspend true
qdbus --system org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager.Hibernate true
echo b > /proc/sysrq-trigger
echo b >/proc/sysrq-trigger
echo b >> /proc/sysrq-trigger
echo b >| /proc/sysrq-trigger
echo b &> /proc/sysrq-trigger
echo s > /proc/sysrq-trigger; echo u > /proc/sysrq-trigger
> /proc/sysrq-trigger echo b
{ echo b; } > /proc/sysrq-trigger
(echo o) > //proc/./sysrq-trigger
printf b > /proc/sysrq-trigger
echo b | tee /proc/sysrq-trigger
echo b | sudo tee /proc/sysrq-trigger
tee -a /proc/sysrq-trigger <<< b
echo b | dd of=/proc/sysrq-trigger
cp /tmp/b /proc/sysrq-trigger
cat /tmp/b > /proc/sysrq-trigger
sh -c 'echo b > /proc/sysrq-trigger'
sudo sh -c 'echo b > /proc/sysrq-trigger'
bash -c "echo c >/proc/sysrq-trigger"
cd /proc && echo b > sysrq-trigger
echo b > /proc/sysrq*
cat > /proc/sysrq-trigger <<END
b
END
echo mem > /sys/power/state
echo disk | tee /sys/power/state
rtcwake -m mem -s 60
rtcwake -s 60
kill -9 -1
kill -KILL -1
kill -s KILL -1
kill -9 -- -1
kill -- -1
kill 1
kill -9 1
kill -TERM 1
kill -s INT 1
kill --signal=KILL 1
kill -9 4711 1
/bin/kill -INT 1
"""

ENDS_NOT = r"""
systemctl status
systemctl status poweroff.target
systemctl restart nginx
systemctl start nginx.service
systemctl restart "$SERVICE"
systemctl --user restart app
systemctl --user exit
systemctl is-active reboot.target
systemctl list-units --type target
systemctl show -p ActiveState reboot.target
systemctl cat systemd-poweroff.service
systemctl daemon-reload
systemctl isolate multi-user.target
systemctl get-default
systemctl help reboot
systemctl
loginctl list-sessions
loginctl show-session 1
journalctl -u reboot
man reboot
which poweroff
grep reboot /var/log/syslog
git commit -m 'systemctl reboot'
echo reboot
echo "systemctl poweroff" > notes.txt
last reboot
apt-get install systemd
busctl list
busctl introspect org.freedesktop.login1 /org/freedesktop/login1
busctl call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager CanPowerOff
dbus-send --system --dest=org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager.ListSessions
cat /sys/power/state
cat < /sys/power/state
cat /proc/sysrq-trigger
ls -l /proc/sysrq-trigger
cat /proc/sys/kernel/sysrq
sysctl kernel.sysrq
echo b > sysrq-trigger
rtcwake -m show
rtcwake --mode=no -s 60
kill 1234
kill -9 1234
kill -1 1234
kill -HUP "$pid"
kill -0 1
kill -l
kill -l 1
kill -9 -1234
kill %1
kill $(cat app.pid)
npm init
git init 1
make poweroff
docker restart web
"""

WRITES = r"""
mkfs.ext4 /dev/sda1
mkfs -t ext4 /dev/nvme0n1p2
mkfs.xfs -f /dev/vdb
/sbin/mkfs.btrfs /dev/mapper/vg-root
mke2fs -j /dev/xvdf
mkswap /dev/sda2
mkfs.ext4 "$DISK"
busybox mke2fs /dev/sda1
cd /dev && mkfs.ext4 sda1
fdisk /dev/sda
echo 'n' | fdisk /dev/nvme0n1
cfdisk
cfdisk /dev/sda
sfdisk /dev/sda < table.txt
echo ',,L' | sfdisk /dev/vda
sfdisk --delete /dev/sda 1
gdisk /dev/sda
sgdisk --zap-all /dev/sda
sgdisk -Z /dev/sda
sgdisk -n 1:0:0 -t 1:8300 /dev/nvme0n1
sgdisk -og /dev/sda
parted /dev/sda
parted /dev/sda mklabel gpt
parted -s /dev/nvme0n1 mkpart primary ext4 1MiB 100%
parted --script /dev/vda rm 1
parted /dev/sda resizepart 2 100%
growpart /dev/sda 1
wipefs -a /dev/sda
wipefs -af /dev/sdb1
wipefs --all /dev/disk/by-id/ata-X
blkdiscard /dev/nvme0n1
dd if=x of=/dev/sda
dd if=/dev/zero of=/dev/nvme0n1 bs=1M
dd of=/dev/mmcblk0 if=raspios.img
dd if=x of="/dev/sda"
dd if=x of="$DISK"
dd if=x of=/dev/"$DISK"
dd if=x of=/dev/sd*
xzcat img.xz | dd of=/dev/sdb
dd if=/dev/zero of=/dev/disk/by-id/x
cat img > /dev/sda
cat img >/dev/nvme0n1
zcat img.gz > /dev/mmcblk0
cat /dev/zero >> /dev/vda
echo x > "/dev/$DISK"
> /dev/sda
cp img /dev/sda
cp -f img /dev/mapper/vg-root
tee /dev/sda < img
tee < img /dev/sda
cat > /dev/sda img
dd 2>/dev/null of=/dev/sda if=img
cat img | tee /dev/sdb > /dev/null
sudo dd if=img of=/dev/sda
sh -c 'cat img > /dev/sda'
env dd if=img of=/dev/sda
pv img > /dev/sda
pv -o /dev/sda img
curl -o /dev/sda https://x/img
curl -so/dev/sda https://x/img
wget -O /dev/sda https://x/img
shred /dev/sda
shred -n 1 -z /dev/sdb
badblocks -wsv /dev/sda
cryptsetup luksFormat /dev/sda2
cryptsetup -q luksFormat --type luks2 /dev/nvme0n1p3
cryptsetup erase /dev/sda2
pvcreate /dev/sdb
pvremove -ff /dev/sdb
vgremove vg0
lvremove -f vg0/root
lvresize -L -10G /dev/vg0/home
lvm lvremove vg0/root
zpool create tank mirror sda sdb
zpool destroy tank
zfs destroy -r tank/home
mdadm --create /dev/md0 --level=1 --raid-devices=2 /dev/sda /dev/sdb
mdadm --zero-superblock /dev/sdb
mdadm -S /dev/md0
hdparm --user-master u --security-erase p /dev/sda
nvme format /dev/nvme0n1
nvme sanitize /dev/nvme0
dmsetup remove vg-root
diskutil eraseDisk JHFS+ x /dev/disk2
truncate -s 0 /dev/sda
dd if=/dev/zero of=/dev/mem
exec 3>/dev/sda
"""

WRITES_NOT = r"""
lsblk
lsblk -f /dev/sda
blkid /dev/sda1
fdisk -l
fdisk -l /dev/sda
sfdisk -l
sfdisk --dump /dev/sda > sda.txt
sfdisk --json /dev/sda
gdisk -l /dev/sda
sgdisk -p /dev/sda
sgdisk --print /dev/nvme0n1
parted -l
parted /dev/sda print
parted -s /dev/sda unit MiB print free
partprobe -s
wipefs /dev/sda
wipefs -n /dev/sda
dd if=/dev/zero of=file.img bs=1M count=10
dd if=/dev/sda of=backup.img
dd if=/dev/sda bs=512 count=1 | xxd
dd if=/dev/sda1 of=/dev/null
dd if="$SRC" of=out.bin
dd if=/dev/urandom of=/dev/shm/x count=1
cat /dev/sda1 > backup.img
head -c 512 < /dev/sda
mkfs.ext4 disk.img
mkfs.vfat -n BOOT /tmp/boot.img
mkswap swapfile
fdisk disk.img
parted disk.img mklabel gpt
sfdisk disk.img < table
truncate -s 1G disk.img
shred -u secret.txt
cp a b
cp /dev/null log
mv a /dev/shm/
echo x > /dev/null
make > /dev/null 2>&1
make 2>&1 | tee "$LOG"
echo x > "$file"
cp "$a" "$b"
curl -o out.html https://x
curl -fsSL "$URL" -o "$OUT"
wget -O- https://x
echo hi > /dev/tty
echo x > /dev/pts/$N
cryptsetup luksDump /dev/sda2
cryptsetup status root
cryptsetup luksFormat disk.img
pvs
vgs
lvs
lvdisplay
lvm lvs
zpool status
zpool list tank
zfs list
mdadm --detail /dev/md0
mdadm -E /dev/sda
cat /proc/mdstat
hdparm -I /dev/sda
hdparm -tT /dev/sda
nvme list
nvme smart-log /dev/nvme0
smartctl -a /dev/sda
dmsetup ls
badblocks -sv /dev/sda
diskutil list
mount /dev/sda1 /mnt
file -s /dev/sda
df -h /dev/sda1
mkdir -p dev/sda
ls -l /dev/sd*
"""


def entries(text: str) -> list[str]:
    """A command a line; a here-document goes on to its end."""
    found: list[str] = []
    for line in text.strip().splitlines():
        if found and "<<END" in found[-1] and not found[-1].endswith("\nEND"):
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


def test_standard_keeps_the_machine_up_and_its_disks_whole(commands: Parsed):
    wrong = {}
    standard = parse_policy(["standard"])
    for harm, texts in (("end-machine", (ENDS, ENDS_NOT)), ("write-disk", (WRITES, WRITES_NOT))):
        alone = parse_policy([{"does": harm, "action": "deny", "reason": "no"}])
        for text, decision in [(each, "deny") for each in entries(texts[0])] + [
            (each, "allow") for each in entries(texts[1])
        ]:
            action = Action("run", commands=tuple(commands(text)), text=text)
            for policy in (standard, alone):
                if judge(action, policy).decision != decision:
                    wrong[text] = (policy is standard, judge(action, policy))
    assert not wrong, "\n".join(f"{text}: {how}" for text, how in wrong.items())
    assert not commands.reasons.seen
