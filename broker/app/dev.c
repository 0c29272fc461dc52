/* The surroundings of --dev: see dev.h. Called by main only. */
#include "app/dev.h"

#include "net/tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static enum err make_directory(struct dev *dev, struct error *e)
{
    const char *parent = getenv("XDG_RUNTIME_DIR");

    if (parent == NULL || access(parent, W_OK) != 0) {
        parent = getenv("TMPDIR");
    }
    if (parent == NULL || access(parent, W_OK) != 0) {
        parent = "/tmp";
    }
    int n = snprintf(dev->dir, sizeof(dev->dir), "%s/tactus-dev-XXXXXX", parent);
    if (n < 0 || (size_t)n >= sizeof(dev->dir) || mkdtemp(dev->dir) == NULL) {
        enum err rc = err_sys(e, ERR_IO, errno, "cannot make a directory in %s", parent);
        dev->dir[0] = '\0';
        return rc;
    }
    snprintf(dev->ca_file, sizeof(dev->ca_file), "%s/ca.pem", dev->dir);
    snprintf(dev->cert_file, sizeof(dev->cert_file), "%s/server.pem", dev->dir);
    snprintf(dev->key_file, sizeof(dev->key_file), "%s/server.key", dev->dir);
    snprintf(dev->socket, sizeof(dev->socket), "%s/broker.sock", dev->dir);
    snprintf(dev->admin_socket, sizeof(dev->admin_socket), "%s/admin.sock", dev->dir);
    return ERR_OK;
}

enum err dev_init(struct dev *dev, struct config *config, struct error *e)
{
    enum err rc = make_directory(dev, e);

    if (rc == ERR_OK) {
        rc = tls_make_dev_certificates(dev->dir, e);
    }
    if (rc == ERR_OK) {
        rc = config_add_listener(config, dev->socket, NULL, NULL, e);
    }
    if (rc == ERR_OK) {
        rc = config_add_listener(config, "tcp://127.0.0.1:0", NULL, NULL, e);
    }
    if (rc == ERR_OK) {
        rc = config_add_listener(config, "tls://127.0.0.1:0", dev->cert_file, dev->key_file, e);
    }
    if (rc == ERR_OK) {
        rc = config_set_ca_file(config, dev->ca_file, e);
    }
    if (rc == ERR_OK) {
        rc = config_dev_admin(config, dev->admin_socket, e);
    }
    return rc;
}

void dev_fini(struct dev *dev)
{
    if (dev->dir[0] == '\0') {
        return;
    }
    (void)unlink(dev->ca_file);
    (void)unlink(dev->cert_file);
    (void)unlink(dev->key_file);
    (void)unlink(dev->socket);
    (void)unlink(dev->admin_socket);
    (void)rmdir(dev->dir);
    dev->dir[0] = '\0';
}
