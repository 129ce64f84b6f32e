/* The protocol of one key in Promela: two wallets, two handlers that crash and retry, a run of check-receipts, and a
 * chain. It has no losses and no bumps: package model is the definition. To visit all of its states:
 *
 *	spin -a remit.pml && gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m100000
 */
#define W 2
#define N 3
#define AT(w, n) ((w) * N + (n))
byte state = 0;                       /* of the payment: 0 absent, 1 prepared, 2 committed */
byte wallet = 0, revision = 0;        /* that it is assigned to, and how often it was */
byte next[W];                         /* next_nonce */
bool held[W]; byte nonce[W], for_[W]; /* the payment's reservation in each wallet */
bool orphan[W];
byte stored[W * N], mined[W * N];     /* 0 nothing, 1 the payment, 2 a no-op */
byte paid = 0;

active [2] proctype handler() {
	byte w, r, n;
	bool told;
	do
	:: true ->
		atomic { state = (state == 0 -> 1 : state); w = wallet; r = revision; n = 0; told = false } /* create, or read */
		if
		:: atomic { state == 1 && revision == r && revision < 2 -> revision++; wallet = 1 - wallet; w = wallet; r = revision }
		:: skip
		fi;
		atomic { if /* reserve */
		:: held[w] && for_[w] == r -> n = nonce[w]; told = true
		:: !held[w] && next[w] < N -> held[w] = true; orphan[w] = false; for_[w] = r; nonce[w] = next[w]; n = next[w]; next[w]++; told = true
		:: else
		fi }
		if
		:: told ->
			atomic { if :: state == 1 && revision == r && stored[AT(w, n)] == 0 -> state = 2; stored[AT(w, n)] = 1 :: else fi }
			if
			:: atomic { stored[AT(w, n)] != 0 && held[w] && nonce[w] == n -> held[w] = false } /* release */
			:: skip /* a crash */
			fi
		:: else
		fi
	:: break
	od
}

active proctype receipts() {
	byte w;
	do
	:: w = 0
	:: w = 1
	:: atomic { held[w] && stored[AT(w, nonce[w])] == 0 && (state == 2 || revision != for_[w]) -> orphan[w] = true }
	:: atomic { held[w] && orphan[w] && stored[AT(w, nonce[w])] == 0 -> stored[AT(w, nonce[w])] = 2 }
	:: atomic { held[w] && stored[AT(w, nonce[w])] == 0 && state == 1 && revision == for_[w] -> state = 2; stored[AT(w, nonce[w])] = 1 }
	:: atomic { held[w] && stored[AT(w, nonce[w])] != 0 -> held[w] = false }
	od
}

active proctype chain() {
	byte i;
	do
	:: i < W * N - 1 -> i++
	:: i > 0 -> i--
	:: atomic { stored[i] != 0 && mined[i] == 0 -> mined[i] = stored[i]; paid = paid + (stored[i] == 1 -> 1 : 0); assert(paid <= 1) }
	od
}
