# Process 1 of a node, in namespaces of its own. In $1 is what the node has for itself, $2 is its
# name, $3 the directory of the programs; after that come lines to mount the control groups again.
# What is mounted here ends with this namespace.
set -eu
cd "$1"
hostname "$2"

# A copy, and not an overlay, which not every file system carries. Nobody configures CNI on all
# nodes at once.
cp -a /etc/. etc
rm -rf etc/cni

mount --bind "$3" opt/kubernetes
for place in /etc /opt /run /var/lib /var/log; do
    # Relative: the directory itself may be under one of these places.
    mount --rbind "./$place" "$place"
done

# The kubelet sets these for the whole machine, unless they are as it wants them already.
for setting in sysctl/*; do
    mount --bind "$setting" "/proc/sys/$(basename "$setting" | tr . /)"
done

echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding || true

eval "$4"

# As on a machine of its own: what containers mount is seen by the kubelet.
mount --make-rshared /
echo ready
exec >/dev/null

# Waits, and so reaps what containers leave behind.
sleep infinity &
wait $!
