#!/bin/sh
# Makes a certificate authority, a server certificate and a client certificate with the openssl
# program, for a broker that listens on tls://. See certs/README.md.
#
# A CA that is already in the directory is used again: so a certificate can be renewed, or made for
# a new name, without giving every container a new CA file. Files are written under other names and
# renamed when all is well: a failure leaves what was there.
set -eu
umask 077

me=${0##*/}
out=certs-out
days=365
ca_days=3650
force=no
new_ca=no
names='localhost 127.0.0.1 ::1 host.docker.internal 172.17.0.1'
work=''

usage() {
    cat <<USAGE
usage: $me [--out DIR] [--days N] [--san NAME]... [--force] [--new-ca]

  --out DIR    where to (made when missing; default: ./certs-out)
  --days N     how long server and client certificate are valid (default: 365)
  --san NAME   one more DNS name or IP address of the server; may be repeated
  --force      replace server and client certificate
  --new-ca     with --force: replace the CA too (what it signed is worth nothing then)

DIR will have ca.pem, ca.key, server.pem, server.key, client.pem and client.key. The server is
valid for: $names
USAGE
}

die() {
    status=$1
    shift
    echo "$me: $*" >&2
    exit "$status"
}

clean_up() {
    [ -z "$work" ] || rm -rf "$work"
}

# A name as subjectAltName wants it: IP:… or DNS:….
san_of() {
    case $1 in
    '' | -* | .* | *..*) die 64 "--san '$1': not a name" ;;
    *:*)
        case $1 in *[!0-9A-Fa-f:.]*) die 64 "--san '$1': not an IPv6 address" ;; esac
        echo "IP:$1"
        ;;
    *[!0-9A-Za-z.*_-]*) die 64 "--san '$1': not a name" ;;
    *[!0-9.]*) echo "DNS:$1" ;;
    *) echo "IP:$1" ;;
    esac
}

number_of_days() {
    case $1 in
    '' | 0* | *[!0-9]* | ??????*) die 64 "--days '$1': a number from 1 to 99999 was expected" ;;
    esac
    echo "$1"
}

write_config() {
    cat >"$work/openssl.cnf" <<CONFIG
[req]
prompt = no
distinguished_name = name
[name]
CN = tactus-broker
[ca]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
subjectAltName = $sans
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
subjectAltName = DNS:tactus-client
CONFIG
}

# Runs openssl; its output is shown only when it fails.
ssl() {
    openssl "$@" >"$work/log" 2>&1 || die 70 "openssl $1: $(cat "$work/log")"
}

new_key() {
    ssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/$1.key"
}

# A random serial number of 127 bits that is not zero.
serial() {
    echo "0x4$(openssl rand -hex 16 | cut -c2-)"
}

make_ca() {
    new_key ca
    [ "$ca_days" -ge "$days" ] || ca_days=$days
    ssl req -x509 -new -config "$work/openssl.cnf" -extensions ca -sha256 -days "$ca_days" \
        -subj "/CN=tactus-broker CA $(openssl rand -hex 4)" -set_serial "$(serial)" \
        -key "$work/ca.key" -out "$work/ca.pem"
}

use_ca() {
    cp "$out/ca.key" "$out/ca.pem" "$work"
    openssl x509 -in "$work/ca.pem" -noout -checkend $((days * 86400)) >"$work/log" 2>&1 ||
        die 65 "$out/ca.pem: cannot be read, or ends within $days days: use --days, or --force --new-ca"
}

# make_leaf server|client COMMON-NAME
make_leaf() {
    new_key "$1"
    ssl req -new -config "$work/openssl.cnf" -subj "/CN=$2" -key "$work/$1.key" -out "$work/$1.csr"
    ssl x509 -req -in "$work/$1.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" -sha256 \
        -set_serial "$(serial)" -days "$days" -extfile "$work/openssl.cnf" -extensions "$1" \
        -out "$work/$1.pem"
    ssl verify -x509_strict -purpose "ssl$1" -CAfile "$work/ca.pem" "$work/$1.pem"
}

# The files that this run would replace without being allowed to.
refuse_to_overwrite() {
    for file in server.pem server.key client.pem client.key; do
        if [ -e "$out/$file" ] && [ $force = no ]; then
            die 73 "$out/$file exists: --force replaces it"
        fi
    done
    if [ $new_ca = yes ] && [ $force = no ]; then
        die 64 "--new-ca needs --force"
    fi
    if [ -e "$out/ca.pem" ] && [ ! -e "$out/ca.key" ] && [ $new_ca = no ]; then
        die 73 "$out/ca.pem has no ca.key beside it: it cannot sign; --force --new-ca replaces it"
    fi
    if [ -e "$out/ca.key" ] && [ ! -e "$out/ca.pem" ] && [ $new_ca = no ]; then
        die 73 "$out/ca.key has no ca.pem beside it; --force --new-ca replaces it"
    fi
}

sans=''
for name in $names; do
    sans="$sans${sans:+, }$(san_of "$name")"
done
while [ $# -gt 0 ]; do
    case $1 in
    --out | --days | --san)
        [ $# -ge 2 ] || die 64 "$1 needs a value"
        case $1 in
        --out) out=$2 ;;
        --days) days=$(number_of_days "$2") ;;
        --san)
            san=$(san_of "$2")
            sans="$sans, $san"
            ;;
        esac
        shift 2
        ;;
    --force) force=yes && shift ;;
    --new-ca) new_ca=yes && shift ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && die 64 "unknown argument: $1" ;;
    esac
done

command -v openssl >/dev/null || die 69 "the openssl program is missing (Debian: apt-get install openssl)"
refuse_to_overwrite
[ -d "$out" ] || mkdir -p "$out" || die 73 "$out cannot be made"
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
work=$(mktemp -d "$out/.new.XXXXXX") || die 73 "$out cannot be written"

write_config
if [ -e "$out/ca.key" ] && [ $new_ca = no ]; then
    use_ca
    made='server client'
else
    make_ca
    made='ca server client'
fi
make_leaf server localhost
make_leaf client tactus-client
for name in $made; do
    chmod 600 "$work/$name.key"
    chmod 644 "$work/$name.pem"
    mv -f "$work/$name.key" "$work/$name.pem" "$out"
done
for name in $made; do
    echo "$out/$name.pem  $out/$name.key"
done
