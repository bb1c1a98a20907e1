#include "lan.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SCRIPT_BYTES = 24576, PREF = 100 /* of the first rule that cuts a way */ };

static bool sorry(struct lan *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool sorry(struct lan *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(l->why, sizeof(l->why), fmt, ap);
    va_end(ap);
    return false;
}

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return good;
}

/* ---- doing something in a namespace ---- */

/* In another process, which is in the namespace: sh runs the script, and what it complains of is kept. */
static bool run(struct lan *l, int ns, const char *script)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return sorry(l, "pipe: %s", strerror(errno));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (dup2(fds[1], 1) < 0 || dup2(fds[1], 2) < 0 || setns(ns, CLONE_NEWNET) != 0)
            _exit(9);
        setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
        execl("/bin/sh", "sh", "-ec", script, (char *)NULL);
        _exit(9);
    }
    close(fds[1]);
    char said[LAN_WHY_BYTES / 2] = "", more[256];
    size_t used = 0;
    for (ssize_t n; (n = read(fds[0], more, sizeof(more))) > 0;)
        for (ssize_t i = 0; i < n && used + 1 < sizeof(said); i++)
            said[used++] = more[i] == '\n' ? ' ' : more[i];
    close(fds[0]);
    int status = -1;
    if (pid > 0)
        waitpid(pid, &status, 0);
    if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    return sorry(l, "%.100s: %s", script, used ? said : "it failed");
}

static bool run_each(struct lan *l, int ns, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool run_each(struct lan *l, int ns, const char *fmt, ...)
{
    char script[SCRIPT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(script, sizeof(script), fmt, ap);
    va_end(ap);
    return run(l, ns, script);
}

/* ---- opening ---- */

/* Root of namespaces that are our own. */
static bool become_root(struct lan *l)
{
    char map[64];
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (uid == 0)
        return true;
    if (unshare(CLONE_NEWUSER) != 0)
        return sorry(l, "no user namespace: %s", strerror(errno));
    snprintf(map, sizeof(map), "0 %u 1", uid);
    bool good = write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof(map), "0 %u 1", gid);
    return (good && write_file("/proc/self/gid_map", map)) ||
           sorry(l, "user namespace: %s", strerror(errno));
}

/* A new namespace for this process, as a descriptor. */
static int ns_new(struct lan *l)
{
    if (unshare(CLONE_NEWNET) != 0) {
        sorry(l, "no network namespace: %s", strerror(errno));
        return -1;
    }
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        sorry(l, "/proc/self/ns/net: %s", strerror(errno));
    return fd;
}

/* A cable from the router to node n, and addresses at both ends. */
static bool plug_in(struct lan *l, uint32_t n)
{
    snprintf(l->address[n], sizeof(l->address[n]), "10.77.%u.2", n + 1);
    return run_each(l, l->router,
                    "ip link add n%u type veth peer name eth0 netns /proc/%d/fd/%d;"
                    "ip addr add 10.77.%u.1/24 dev n%u; ip link set n%u up",
                    n, (int)getpid(), l->node[n], n + 1, n, n) &&
           run_each(l, l->node[n],
                    "ip link set lo up; ip addr add %s/24 dev eth0; ip link set eth0 up;"
                    "ip route add default via 10.77.%u.1",
                    l->address[n], n + 1);
}

bool lan_open(struct lan *l, uint32_t nodes)
{
    *l = (struct lan){.nodes = nodes, .router = -1};
    for (uint32_t n = 0; n < LAN_NODES_MAX; n++)
        l->node[n] = -1;
    if (!become_root(l))
        return false;
    for (uint32_t n = 0; n < nodes; n++)
        if ((l->node[n] = ns_new(l)) < 0)
            return false;
    if ((l->router = ns_new(l)) < 0)
        return false;
    if (!write_file("/proc/sys/net/ipv4/ip_forward", "1"))
        return sorry(l, "ip_forward: %s", strerror(errno));
    for (uint32_t n = 0; n < nodes; n++)
        if (!plug_in(l, n))
            return false;
    return true;
}

void lan_close(struct lan *l)
{
    for (uint32_t n = 0; n < l->nodes; n++)
        if (l->node[n] >= 0)
            close(l->node[n]);
    if (l->router >= 0)
        close(l->router);
}

bool lan_enter(const struct lan *l, uint32_t node)
{
    return setns(l->node[node], CLONE_NEWNET) == 0;
}

/* ---- harm ---- */

/* By rules of the router for single ways: it drops what they match, and tells nobody. */
bool lan_cut(struct lan *l, const uint32_t to[])
{
    char script[SCRIPT_BYTES] = "ip -batch - <<.\n";
    size_t used = strlen(script);
    for (uint32_t f = 0; f < l->nodes; f++)
        for (uint32_t t = 0; t < l->nodes; t++) {
            bool cut = f != t && (to[f] >> t & 1);
            if (cut == l->cut[f][t])
                continue;
            used += (size_t)snprintf(
                script + used, sizeof(script) - used, "rule %s pref %u from %s to %s blackhole\n",
                cut ? "add" : "del", PREF + f * LAN_NODES_MAX + t, l->address[f], l->address[t]);
            l->cut[f][t] = cut;
        }
    snprintf(script + used, sizeof(script) - used, ".\n");
    return run(l, l->router, script);
}

bool lan_heal(struct lan *l)
{
    return lan_cut(l, (const uint32_t[LAN_NODES_MAX]){0});
}

bool lan_shape(struct lan *l, uint32_t node, const char *qdisc)
{
    if (qdisc)
        return run_each(l, l->router, "tc qdisc replace dev n%u root %s", node, qdisc);
    return run_each(l, l->router, "tc qdisc del dev n%u root", node);
}

bool lan_shape_out(struct lan *l, uint32_t node, const char *qdisc)
{
    return run_each(l, l->node[node], "tc qdisc replace dev eth0 root %s", qdisc);
}

bool lan_sysctl(struct lan *l, uint32_t node, const char *name, const char *value)
{
    return run_each(l, l->node[node], "echo '%s' >/proc/sys/%s", value, name);
}
