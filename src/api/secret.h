/* The secret keys of hosts and clients under transport tcp: which one a process has, and making them.
 *
 * A name's secret key is in the file NAME.key of keys_dir, and NAME.key.new beside it while it is replaced
 * (cluster_secret_path). Nothing is kept here; any thread may call. Who got a secret forgets it with tls_key_wipe. */
#ifndef API_SECRET_H
#define API_SECRET_H

#include "conf/cluster.h"
#include "mem/tcp/tls.h"

_Static_assert((int)CLUSTER_PUBLIC_BYTES == (int)TLS_KEY_BYTES &&
                   (int)CLUSTER_KEYS_EACH == (int)TLS_KEYS_EACH,
               "the file and the transport speak of the same keys");

/* The secret of a host or client of the cluster in `file`: NAME.key or NAME.key.new, the first whose public key the file
 * lists. ERR_NOTFOUND: there is neither, or no such name; ERR_REFUSED: others may read it, or the file lists another
 * key. */
int api_secret(const struct cluster *, const char *file, const char *name, bool host,
               unsigned char secret[TLS_KEY_BYTES], struct err *);

/* Who this process is as a client: $TRAM_CLIENT, else `any` with any-with-key, else `client` if there is one, else the
 * only one that there is. With an authority it is just a name for %h, `client` if not given. */
int api_client_name(const struct cluster *, const char *file, char name[CLUSTER_NAME_BYTES],
                    struct err *);

/* The same with its secret, which $TRAM_KEY may be the path of; then, without $TRAM_CLIENT, the client is whoever the key
 * belongs to. */
int api_secret_client(const struct cluster *, const char *file, char name[CLUSTER_NAME_BYTES],
                      unsigned char secret[TLS_KEY_BYTES], struct err *);

/* All names and their public keys, for tls_open. The names are the cluster's own. */
void api_identities(const struct cluster *, struct tls_identity hosts[CLUSTER_HOSTS_MAX],
                    struct tls_identity clients[CLUSTER_CLIENT_KEYS_MAX]);

/* Makes the secret key of a name, and keys_dir if it is not there; `next`: NAME.key.new. ERR_EXISTS: there is one, which
 * is left alone, and *public_key is its. */
int api_key_make(const struct cluster *, const char *file, const char *name, bool next,
                 unsigned char public_key[TLS_KEY_BYTES], struct err *);

/* For a new cluster file: keys for all hosts without one, and for one client, `client`, if there is none. They are put into
 * the cluster, which the caller writes. Secret keys that are there already are used. Returns how many were made, or an error. */
int api_keys_make(struct cluster *, const char *file, struct err *);

#endif
