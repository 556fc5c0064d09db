# Process 1 of a cluster. Standard input is a pipe from the process that started the cluster: its
# end means that this process is gone, and the word "stay" that the cluster is to outlive it. $1 is
# the cluster's directory, the rest are its directories of control groups.
directory=$1
shift
exec 3<&0 </dev/null
echo ready
exec >/dev/null

# A shell that waits reaps whatever is orphaned; one that reads does not.
{ read -r word <&3 && [ "$word" = stay ] && exec sleep infinity; } &
wait $!

kill -KILL -1

# Busy for as long as the last process takes to go, which may be one that our owner ran beside the
# cluster.
for directory in "$@" "$directory"; do
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        case $directory in
        */cgroup/*) find "$directory" -depth -type d -exec rmdir {} + ;;
        *) rm -rf -- "$directory" ;;
        esac 2>/dev/null
        [ -d "$directory" ] || break
        sleep 0.1
    done
done
