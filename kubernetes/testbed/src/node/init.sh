# Process 1 of a node, in namespaces of its own. $1 is the directory of the node's private files, $2
# the node's name, $3 the directory of the programs, $4 shell lines that mount the control groups
# again. The mounts end with this namespace.
set -eu
cd "$1"
hostname "$2"

# A copy, because not every file system supports an overlay. Without the machine's CNI
# configuration: each node gets its own.
cp -a /etc/. etc
rm -rf etc/cni

mount --bind "$3" opt/kubernetes
for place in /etc /opt /run /var/lib /var/log; do
    # Relative: the directory itself may be under one of these places.
    mount --rbind "./$place" "$place"
done

# The kubelet would set these for the whole machine. So it sees files that already have its values.
for setting in sysctl/*; do
    mount --bind "$setting" "/proc/sys/$(basename "$setting" | tr . /)"
done

echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding || true

eval "$4"

# As on a real machine, the kubelet sees what containers mount.
mount --make-rshared /
echo ready
exec >/dev/null

# A shell that waits reaps the processes that containers leave behind.
sleep infinity &
wait $!
