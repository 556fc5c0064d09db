# Process 1 of a cluster. Standard input is a pipe from the process that started the cluster. The
# end of the pipe means that the starter is gone; the word "stay" means that the cluster must
# outlive it. $1 is the cluster's directory, the other arguments are its control groups.
directory=$1
shift
exec 3<&0 </dev/null
echo ready
exec >/dev/null

# A shell that waits reaps orphaned processes; one that reads does not.
{ read -r word <&3 && [ "$word" = stay ] && exec sleep infinity; } &
wait $!

kill -KILL -1

# A directory stays busy until its last process has ended. That may be one that our owner ran beside
# the cluster.
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
