/* tram key: the keys that hosts and clients have under transport tcp. The secret ones are files of keys_dir, the public
 * ones stand in the cluster file. */
#include "api/secret.h"
#include "base/nearest.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/key_file.h"
#include "cli/key_list.h"
#include "conf/value.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 1024, FINGERPRINT_LEAST = 4, NAMES_SHOWN = 8 };

static const char client_default[] = "client";

struct key_args {
    const char *file, *name, *client, *fingerprint;
    bool all, force_last, json;
};

/* ---- complaints ---- */

static int complain(const char *command, int rc, const struct err *e)
{
    fprintf(stderr, "tram key %s: %s\n", command, e->text);
    return rc == ERR_NOTFOUND ? CMD_USAGE : CMD_FAILED;
}

static const char *name_at(const void *of, uint32_t i)
{
    const struct cluster *c = of;

    return i < c->hosts ? c->host[i].name : c->client_key[i - c->hosts].name;
}

static int no_such_name(const char *command, const struct cluster *c, const char *file,
                        const char *name)
{
    struct nearest_names names = {name_at, c, c->hosts + c->client_keys};

    fprintf(stderr, "tram key %s: there is no host or client '%s' in %s; %s\n", command, name, file,
            nearest_text(name, names, NAMES_SHOWN).s);
    return CMD_USAGE;
}

/* Whose keys they are; NULL if there is no such name. */
static struct cluster_keys *keys_of(struct cluster *c, const char *name, bool *client)
{
    int host = cluster_host(c, name), other = cluster_client(c, name);

    *client = host == CLUSTER_NONE;
    if (host != CLUSTER_NONE)
        return &c->host[host].keys;
    return other != CLUSTER_NONE ? &c->client_key[other].keys : NULL;
}

static struct cluster_edit edit_of(const char *name, bool client, bool drop,
                                   const unsigned char key[CLUSTER_PUBLIC_BYTES])
{
    struct cluster_edit edit = {.name = name, .client = client, .drop = drop};

    memcpy(edit.key, key, sizeof edit.key);
    return edit;
}

/* Makes or finds the secret key, and puts the public one into the text in memory. */
static int give_key(struct key_file *f, const char *command, const char *name, bool client,
                    bool next)
{
    unsigned char public_key[TLS_KEY_BYTES];
    char path[PATH_BYTES], text[CLUSTER_PUBLIC_TEXT];
    struct err e = {""};

    int made = api_key_make(f->c, f->file, name, next, public_key, &e);
    if (made < 0 && made != ERR_EXISTS)
        return complain(command, made, &e);
    int rc = cluster_secret_path(f->c, f->file, name, next, path, sizeof path, &e);
    if (rc < 0)
        return complain(command, rc, &e);
    printf("%s %s, the secret key of %s %s\n", made == 0 ? "made" : "kept", path,
           client ? "client" : "host", name);
    struct cluster_edit edit = edit_of(name, client, false, public_key);
    rc = key_file_edit(f, &edit, &e);
    if (rc < 0)
        return complain(command, rc, &e);
    cluster_public_text(public_key, text);
    printf("put its public key into %s: %s\n",
           client && f->c->any_file[0] != '\0' ? f->c->any_file : f->file, text);
    return CMD_DONE;
}

static int save(struct key_file *f, const char *command)
{
    struct err e = {""};

    int rc = key_file_save(f, &e);
    return rc < 0 ? complain(command, rc, &e) : CMD_DONE;
}

/* ---- new ---- */

static int has_one_already(const struct key_file *f, const char *name)
{
    fprintf(stderr,
            "tram key new: %s has a key already; `tram key add %s %s` makes one that is going to"
            " replace it\n",
            name, f->file, name);
    return CMD_FAILED;
}

static int new_host(struct key_file *f, const char *name)
{
    int host = cluster_host(f->c, name);

    if (host == CLUSTER_NONE) {
        fprintf(stderr,
                "tram key new: there is no host '%s' in %s; %s. A client's key is made with"
                " --client %s\n",
                name, f->file, cluster_hosts_near(f->c, name).s, name);
        return CMD_USAGE;
    }
    if (f->c->host[host].keys.count > 0)
        return has_one_already(f, name);
    return give_key(f, "new", name, false, false);
}

static int new_client(struct key_file *f, const char *name)
{
    int client = cluster_client(f->c, name);

    if (!name_ok(name)) {
        fprintf(
            stderr,
            "tram key new: '%.40s' is no name; use letters, digits, - _ and . in it, at most %d,"
            " and a letter, digit or _ first\n",
            name, NAME_CHARS_MAX);
        return CMD_USAGE;
    }
    if (cluster_host(f->c, name) != CLUSTER_NONE) {
        fprintf(stderr, "tram key new: '%s' is a host in %s; give the client another name\n", name,
                f->file);
        return CMD_USAGE;
    }
    if (f->c->any_file[0] != '\0' && client == CLUSTER_NONE) {
        fprintf(stderr,
                "tram key new: in %s whoever has the key of %s is a client, and none has a name;"
                " --client any makes that key\n",
                f->file, f->c->any_file);
        return CMD_USAGE;
    }
    if (client != CLUSTER_NONE && f->c->client_key[client].keys.count > 0)
        return has_one_already(f, name);
    return give_key(f, "new", name, true, false);
}

/* What `--all` gives a client's key: one without any, if there are none that have one. */
static const char *client_without_key(const struct cluster *c)
{
    if (c->client_keys == 0)
        return client_default;
    return c->any_file[0] != '\0' && c->client_key[0].keys.count == 0 ? c->client_key[0].name
                                                                      : NULL;
}

/* Those that can be made are, also if others cannot. */
static int new_all(struct key_file *f)
{
    int code = CMD_DONE, made = 0;

    for (uint32_t i = 0; i < f->c->hosts; i++) {
        char name[CLUSTER_NAME_BYTES];

        if (f->c->host[i].keys.count > 0)
            continue;
        memcpy(name, f->c->host[i].name, sizeof name); /* what is changed is read again */
        int one = new_host(f, name);
        code = one != CMD_DONE ? one : code;
        made++;
    }
    const char *client = client_without_key(f->c);
    if (client != NULL) {
        char name[CLUSTER_NAME_BYTES];

        snprintf(name, sizeof name, "%s", client);
        int one = new_client(f, name);
        code = one != CMD_DONE ? one : code;
        made++;
    }
    if (made == 0)
        printf("%s: all hosts have keys, and so has a client\n", f->file);
    return code;
}

static int key_new(const struct key_args *a)
{
    struct key_file f;
    struct err e = {""};

    int rc = key_file_open(&f, a->file, &e);
    if (rc < 0)
        return complain("new", rc, &e);
    int code = a->all            ? new_all(&f)
               : a->name != NULL ? new_host(&f, a->name)
                                 : new_client(&f, a->client);
    bool changed = f.changed || f.any_changed;
    int saved = save(&f, "new");
    if (changed && saved == CMD_DONE)
        printf(
            "copy %s to every machine, and each secret key only to where its host or client runs\n",
            a->file);
    if (f.c->key[0] != '\0')
        printf("leave `key: %s` out of %s now: the key that all had is not used any more\n",
               f.c->key, a->file);
    key_file_close(&f);
    return code != CMD_DONE ? code : saved;
}

/* ---- add ---- */

static int add(struct key_file *f, const char *name)
{
    char path[PATH_BYTES];
    struct err e = {""};
    bool client;
    const struct cluster_keys *keys = keys_of(f->c, name, &client);

    if (keys == NULL)
        return no_such_name("add", f->c, f->file, name);
    if (keys->count == 0) {
        fprintf(stderr, "tram key add: %s has no key yet; run `tram key new %s %s%s`\n", name,
                f->file, client ? "--client " : "", name);
        return CMD_FAILED;
    }
    if (keys->count == CLUSTER_KEYS_EACH) {
        fprintf(stderr,
                "tram key add: %s has two keys already; run `tram key retire %s %s` before another"
                " is added\n",
                name, f->file, name);
        return CMD_FAILED;
    }
    int code = give_key(f, "add", name, client, true);
    if (code == CMD_DONE)
        code = save(f, "add");
    if (code != CMD_DONE || cluster_secret_path(f->c, f->file, name, true, path, sizeof path, &e))
        return code;
    printf("copy %s to every machine, and %s to where %s runs; when all have them, end the old key"
           " with `tram key retire %s %s`\n",
           f->file, path, name, f->file, name);
    return CMD_DONE;
}

static int key_add(const struct key_args *a)
{
    struct key_file f;
    struct err e = {""};

    int rc = key_file_open(&f, a->file, &e);
    if (rc < 0)
        return complain("add", rc, &e);
    int code = add(&f, a->name);
    key_file_close(&f);
    return code;
}

/* ---- retire ---- */

/* Which of the keys goes: the first, or the one that begins so. */
static int choose(const struct key_args *a, const struct cluster_keys *keys, uint32_t *which)
{
    uint32_t found = 0;

    *which = 0;
    if (a->fingerprint == NULL)
        return CMD_DONE;
    for (uint32_t i = 0; i < keys->count; i++)
        if (key_begins(keys->key[i], a->fingerprint)) {
            *which = i;
            found++;
        }
    if (strlen(a->fingerprint) < FINGERPRINT_LEAST || found != 1) {
        fprintf(stderr,
                "tram key retire: '%s' is no key of %s; write at least %d characters, as `tram key"
                " list %s` shows them\n",
                a->fingerprint, a->name, FINGERPRINT_LEAST, a->file);
        return CMD_USAGE;
    }
    return CMD_DONE;
}

static bool is_secret_of(const char *path, const unsigned char key[CLUSTER_PUBLIC_BYTES])
{
    unsigned char secret[TLS_KEY_BYTES], public_key[TLS_KEY_BYTES];
    struct err e = {""};

    int rc = tls_key_read(path, secret, public_key, &e);
    tls_key_wipe(secret);
    return rc == 0 && memcmp(public_key, key, sizeof public_key) == 0;
}

static int move(const char *from, const char *to)
{
    if (rename(from, to) == 0) {
        printf("%s is %s now\n", from, to);
        return CMD_DONE;
    }
    fprintf(stderr, "tram key retire: ");
    perror(from);
    return CMD_FAILED;
}

/* The secret of the key that is left becomes NAME.key. One that nothing follows is put aside, or `new` would take it. */
static int move_secrets(const struct key_file *f, const char *name, const unsigned char *gone,
                        const struct cluster_keys *left)
{
    char path[PATH_BYTES], next[PATH_BYTES], aside[PATH_BYTES + 16];
    struct err e = {""};

    int rc = cluster_secret_path(f->c, f->file, name, false, path, sizeof path, &e);
    if (rc == 0)
        rc = cluster_secret_path(f->c, f->file, name, true, next, sizeof next, &e);
    if (rc < 0)
        return complain("retire", rc, &e);
    snprintf(aside, sizeof aside, "%s.retired", path);
    bool old = is_secret_of(path, gone);
    if (is_secret_of(next, gone))
        return move(next, aside);
    if (left->count > 0 && is_secret_of(next, left->key[0]) && (old || access(path, F_OK) != 0))
        return move(next, path);
    return old ? move(path, aside) : CMD_DONE;
}

static int retire(struct key_file *f, const struct key_args *a)
{
    struct err e = {""};
    uint32_t which;
    bool client;
    const struct cluster_keys *keys = keys_of(f->c, a->name, &client);

    if (keys == NULL)
        return no_such_name("retire", f->c, a->file, a->name);
    if (keys->count == 0) {
        fprintf(stderr, "tram key retire: %s has no key\n", a->name);
        return CMD_FAILED;
    }
    int code = choose(a, keys, &which);
    if (code != CMD_DONE)
        return code;
    if (keys->count == 1 && !a->force_last) {
        fprintf(stderr,
                "tram key retire: %s is the last key of %s, which nobody could be without it; add"
                " another one first (`tram key add %s %s`), or say --force-last\n",
                key_fingerprint(keys->key[0]).s, a->name, a->file, a->name);
        return CMD_FAILED;
    }
    struct cluster_edit edit = edit_of(a->name, client, true, keys->key[which]);
    int rc = key_file_edit(f, &edit, &e);
    if (rc < 0)
        return complain("retire", rc, &e);
    code = save(f, "retire");
    if (code != CMD_DONE)
        return code;
    printf("%s %s has the key %s no more\n", client ? "client" : "host", a->name,
           key_fingerprint(edit.key).s);
    code = move_secrets(f, a->name, edit.key, keys_of(f->c, a->name, &client));
    printf("copy %s to every machine\n", a->file);
    return code;
}

static int key_retire(const struct key_args *a)
{
    struct key_file f;
    struct err e = {""};

    int rc = key_file_open(&f, a->file, &e);
    if (rc < 0)
        return complain("retire", rc, &e);
    int code = retire(&f, a);
    key_file_close(&f);
    return code;
}

/* ---- list and show ---- */

static int load(const char *command, const char *file, struct cluster **c)
{
    struct err e = {""};

    int rc = cluster_load_lax(file, c, &e);
    if (rc == 0)
        rc = key_file_check(*c, file, &e);
    if (rc < 0) {
        cluster_free(*c);
        return complain(command, rc, &e);
    }
    return CMD_DONE;
}

static int key_list_all(const struct key_args *a)
{
    struct cluster *c = NULL;

    int code = load("list", a->file, &c);
    if (code != CMD_DONE)
        return code;
    code = key_list(c, a->file, a->json);
    cluster_free(c);
    return code;
}

static int key_show(const struct key_args *a)
{
    struct cluster *c = NULL;
    char text[CLUSTER_PUBLIC_TEXT];
    bool client;

    int code = load("show", a->file, &c);
    if (code != CMD_DONE)
        return code;
    const struct cluster_keys *keys = keys_of(c, a->name, &client);
    if (keys == NULL) {
        code = no_such_name("show", c, a->file, a->name);
    } else if (keys->count == 0) {
        fprintf(stderr, "tram key show: %s has no key; `tram key new` makes one\n", a->name);
        code = CMD_FAILED;
    }
    for (uint32_t i = 0; keys != NULL && i < keys->count; i++) {
        cluster_public_text(keys->key[i], text);
        puts(text);
    }
    cluster_free(c);
    return code;
}

/* ---- the words ---- */

#define FILE_MISSING "which cluster file? `tram init --transport tcp` writes one"
#define NAME_MISSING "whose key? Name a host or a client of the file"

static int cmd_new(int argc, char **argv)
{
    struct key_args a = {0};
    const struct args_word words[] = {
        {"FILE", &a.file, FILE_MISSING}, {"NAME", &a.name, NULL}, {0}};
    const struct args_option options[] = {
        {"--all", NULL, "all hosts that have no key, and a client `client` if no client has one",
         .flag = &a.all},
        {"--client", "NAME", "a client of that name, which is added if it is not there",
         .text = &a.client, .needs = "a name"},
        {0}};
    const struct args_command command = {
        .name = "key new",
        .usage = "FILE NAME|--all|--client NAME",
        .about =
            "Makes the secret key of a host, NAME.key in the keys_dir of the cluster file, and "
            "puts the public key into the file, where everything else stays as it is. A secret "
            "key that is there already is kept, and used.",
        .options = options,
        .words = words,
        .too_many = "one name at a time, or --all",
        .more = "Exit code: 0 made, 1 not made, 2 wrong usage."};

    int code = args_read(&command, argc, argv);
    if (code != ARGS_GO)
        return code;
    if ((a.name != NULL) + (a.client != NULL) + a.all != 1)
        return args_bad("key new", "NAME", "name a host, or say --client NAME, or --all");
    return key_new(&a);
}

static int cmd_list(int argc, char **argv)
{
    struct key_args a = {0};
    const struct args_word words[] = {{"FILE", &a.file, FILE_MISSING}, {0}};
    const struct args_option options[] = {
        {"--json", NULL, "the same for programs", .flag = &a.json}, {0}};
    const struct args_command command = {
        .name = "key list",
        .usage = "FILE [--json]",
        .about = "Shows the keys of all hosts and clients by their first characters, which of the "
                 "secret keys are here, and what is wrong with those: that others may read one, or "
                 "that it is not the one of a listed key.",
        .options = options,
        .words = words,
        .too_many = "a second file; it takes one",
        .more = "Exit code: 0 shown, 1 shown with warnings or not at all, 2 wrong usage."};

    int code = args_read(&command, argc, argv);
    return code != ARGS_GO ? code : key_list_all(&a);
}

static int cmd_add(int argc, char **argv)
{
    struct key_args a = {0};
    const struct args_word words[] = {
        {"FILE", &a.file, FILE_MISSING}, {"NAME", &a.name, NAME_MISSING}, {0}};
    const struct args_option options[] = {{0}};
    const struct args_command command = {
        .name = "key add",
        .usage = "FILE NAME",
        .about =
            "Makes a second key for a host or client, NAME.key.new, and adds the public key in "
            "the cluster file. Both are good until `tram key retire` ends the old one.",
        .options = options,
        .words = words,
        .too_many = "one name at a time",
        .more = "Exit code: 0 added, 1 not added, 2 wrong usage."};

    int code = args_read(&command, argc, argv);
    return code != ARGS_GO ? code : key_add(&a);
}

static int cmd_retire(int argc, char **argv)
{
    struct key_args a = {0};
    const struct args_word words[] = {{"FILE", &a.file, FILE_MISSING},
                                      {"NAME", &a.name, NAME_MISSING},
                                      {"FINGERPRINT", &a.fingerprint, NULL},
                                      {0}};
    const struct args_option options[] = {{"--force-last", NULL,
                                           "also if it is the last one: nobody has the name then",
                                           .flag = &a.force_last},
                                          {0}};
    const struct args_command command = {
        .name = "key retire",
        .usage = "FILE NAME [FINGERPRINT] [--force-last]",
        .about = "Removes the old one of two public keys from the cluster file, or the one that "
                 "begins with FINGERPRINT. If the secret of the other one is here, it becomes "
                 "NAME.key.",
        .options = options,
        .words = words,
        .too_many = "one key at a time",
        .more = "Exit code: 0 retired, 1 not retired, 2 wrong usage."};

    int code = args_read(&command, argc, argv);
    return code != ARGS_GO ? code : key_retire(&a);
}

static int cmd_show(int argc, char **argv)
{
    struct key_args a = {0};
    const struct args_word words[] = {
        {"FILE", &a.file, FILE_MISSING}, {"NAME", &a.name, NAME_MISSING}, {0}};
    const struct args_option options[] = {{0}};
    const struct args_command command = {
        .name = "key show",
        .usage = "FILE NAME",
        .about = "Prints the public key of a host or client, each on a line if it has two.",
        .options = options,
        .words = words,
        .too_many = "one name at a time",
        .more = "Exit code: 0 printed, 1 there is none, 2 wrong usage."};

    int code = args_read(&command, argc, argv);
    return code != ARGS_GO ? code : key_show(&a);
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *usage, *help;
} parts[] = {
    {"new", cmd_new, "FILE NAME|--all|--client NAME", "make a key, and put it into the file"},
    {"list", cmd_list, "FILE [--json]", "show the keys, and which secret ones are here"},
    {"add", cmd_add, "FILE NAME", "make a second key, which is to replace the first"},
    {"retire", cmd_retire, "FILE NAME [FINGERPRINT] [--force-last]", "end the old one of two"},
    {"show", cmd_show, "FILE NAME", "print a public key"},
};

enum { PARTS = sizeof parts / sizeof parts[0] };

static const char *part_name(const void *of, uint32_t i)
{
    (void)of;
    return parts[i].name;
}

static int usage(FILE *to, int code)
{
    fputs(
        "usage: tram key new|list|add|retire|show FILE ...\n\n"
        "The keys by which hosts and clients know each other under transport tcp. FILE is the\n"
        "cluster file, which has the public keys; each machine has the secret keys of its own.\n\n",
        to);
    for (unsigned i = 0; i < PARTS; i++)
        fprintf(to, "  %-7s%-40s %s\n", parts[i].name, parts[i].usage, parts[i].help);
    fputs(
        "\n`tram key new --help` tells more of one. Exit code: 0 done, 1 failed, 2 wrong usage.\n",
        to);
    return code;
}

static int complete(void)
{
    for (unsigned i = 0; i < PARTS; i++)
        puts(parts[i].name);
    return CMD_DONE;
}

int cmd_key(int argc, char **argv)
{
    struct nearest_names names = {part_name, NULL, PARTS};

    if (argc < 2)
        return usage(stderr, CMD_USAGE);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return usage(stdout, CMD_DONE);
    if (strcmp(argv[1], "--complete") == 0)
        return complete();
    for (unsigned i = 0; i < PARTS; i++)
        if (strcmp(argv[1], parts[i].name) == 0)
            return parts[i].run(argc - 1, argv + 1);
    fprintf(stderr, "tram key: there is no '%s'; %s. `tram key --help` explains them\n", argv[1],
            nearest_text(argv[1], names, PARTS).s);
    return CMD_USAGE;
}
