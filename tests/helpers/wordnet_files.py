"""Some lines of WordNet's database."""

# Lines of WordNet 3.0, as wndb(5WN) describes them.
# "%" stands for the offsets of the synsets, in their order.
SYNSETS = {
    "noun": [
        "%0 17 n 02 Earth 0 earth 2 001 @ %1 n 0000 | the third planet from the sun",
        "%1 09 n 01 sloping_land 0 000 | land",
        "%2 17 n 01 bank 0 001 @ %1 n 0000 | sloping land",
        "%3 14 n 01 bank 2 000 | a financial institution",
    ],
    "verb": ["%0 40 v 0a get 0 acquire 0 a 0 b 0 c 0 d 0 e 0 f 0 g 0 hold 1f 000 | come to have"],
    "adj": [
        "%0 00 a 01 specific 0 002 ! %2 a 0101 & %1 a 0000 | stated explicitly",
        "%1 00 s 02 peculiar(a) 0 especial 1 002 = %0 n 0000 & %0 a 0000 | unique",
        "%2 00 a 01 general 0 000 | not specific",
    ],
    "adv": ["%0 02 r 01 well 0 000 | in a good manner"],
}
INDEX = {  # lemma, pointers, then the senses by frequency
    "noun": {"bank": (["@", "#m"], [3, 2]), "earth": ([], [0])},
    "verb": {"hold": ([], [0])},
    "adj": {"peculiar": (["&"], [1]), "specific": (["!", "&"], [0])},
    "adv": {"well": ([], [0])},
}
LICENSE = "  1 This software and database is being provided to you | as is\n"


def write_wordnet(folder):
    for name, synsets in SYNSETS.items():
        offsets, end = [], len(LICENSE)
        for synset in synsets:
            offsets.append(f"{end:08d}")
            end += len(synset) + 6 * synset.count("%") + 1
        for i, offset in enumerate(offsets):
            synsets = [synset.replace(f"%{i}", offset) for synset in synsets]
        (folder / f"data.{name}").write_text(LICENSE + "\n".join(synsets) + "\n")
        lines = [
            f"{lemma} {name[0]} {len(senses)} {len(pointers)} {' '.join(pointers)} {len(senses)}"
            f" 1 {' '.join(offsets[sense] for sense in senses)}  \n"
            for lemma, (pointers, senses) in INDEX[name].items()
        ]
        (folder / f"index.{name}").write_text(LICENSE + "".join(lines))
    return folder
