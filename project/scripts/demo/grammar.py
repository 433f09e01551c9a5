"""Word lists and sentence frames of the demo's data (see data.py).

A frame is a line of tokens. Tokens in braces are slots. Slots in lower case do not depend on the
label (SHARED). N and M are names, and W is an ambiguous word. The other capitals are cue words, on
which the label depends. All words and sentences were written for this demo.
"""

# --- Words for every label ------------------------------------------------------------------

SHARED = {
    "people": """the neighbours / our friends / the visitors / the reporters / my cousins /
        the students / the critics / many readers / the twins / both sisters / some people /
        the others / the old men / our guests / most listeners""",
    "person": """the accountant / the ranger / my aunt / the teacher / her brother / the painter /
        the doctor / an old man / the driver / our neighbour / the gardener / a student /
        the lawyer / the cook / his daughter / the sailor / the hiker / the clerk / a tourist /
        the farmer""",
    "said": "said / wrote / argued / believed / insisted / thought / claimed",
    "talked": """talked about / complained about / read about / heard about / wrote about /
        argued about / asked about / thought about / joked about""",
    "time": """last week / last autumn / on Monday / on Friday / two years ago / that evening /
        in the end / before the war / in December / at the weekend / a long time ago / in June /
        the day before / yesterday / last Tuesday""",
    "adj": """small / famous / quiet / remarkable / modest / strange / proud / popular / little /
        respected / typical / real / promising / forgotten""",
    "saw": "noticed / remembered / reported / explained / discovered / mentioned / doubted",
    "how": """slowly / at once / to the left / to the right / very gently / with great care /
        again and again / in a hurry""",
}

NAMES = """Jordan / Paris / Florence / Washington / Sydney / Georgia / Lincoln / Ford / Chelsea /
    Austin / Madison / Morgan / Hudson / Houston / Dallas / Vienna / Siena / Carson / Dakota /
    Phoenix / Bradford / Clifton / Lancaster / Hamilton / Wellington / Nelson / Raleigh / Kent /
    Preston / Stanley / Warwick / Wells / Sterling / Marlow / San Martin / Saint Clair /
    Van Buren / La Porte / Del Monte"""
# Rare names occur in the LM text; new (invented) names only in the dev and test sets.
RARE_NAMES = """Orvella / Brantwick / Sel Amar / Quenby / Tolmara / Verrick / Ysolde / Kesterly /
    Dunmarrow / Alvarone / Port Hesper / Corriba"""
NEW_NAMES = """Zantoria / Fellbrook / Mirado / Ostrander / Halvane / Perriwell / Saint Orrin /
    Ulmeric / Casterwyn / Belvoria / Del Toro / Nimrath"""

# --- Names: PERSON, PLACE or FIRM ------------------------------------------------------------

NER = {
    "PERSON": {
        # Topic of a conversation.
        "E": """wedding / divorce / haircut / diary / accent / childhood / operation / pregnancy /
            birthday / diet / tattoo / beard / wig / memoir / migraine / illness""",
        # Kind of person, place or firm.
        "K": """singer / plumber / nurse / poet / dentist / goalkeeper / violinist / actor /
            carpenter / sculptor / barber / midwife""",
        # What happened to it.
        "P": """baptised / hypnotised / bullied / arrested / married / scolded / kissed / hugged /
            orphaned / tickled / knighted / widowed""",
    },
    "PLACE": {
        "E": """harbour / carnival / earthquake / flood / skyline / cathedral / airport / climate /
            castle / tramway / beach / zoo / museum / mosque / snow / fog""",
        "K": """town / village / port / island / province / suburb / resort / county / region /
            city / capital / peninsula""",
        "P": """flooded / bombed / besieged / rebuilt / annexed / evacuated / conquered / paved /
            colonised / populated / blockaded / occupied""",
    },
    "FIRM": {
        "E": """merger / dividend / bankruptcy / takeover / recall / audit / profit / turnover /
            patent / subsidiary / brand / logo / payroll / invoice / warranty / flotation""",
        "K": """brewery / insurer / retailer / airline / publisher / supplier / manufacturer /
            wholesaler / carmaker / conglomerate / distributor / bakery""",
        "P": """acquired / audited / nationalised / delisted / liquidated / privatised /
            incorporated / floated / refinanced / undervalued / taxed / subsidised""",
    },
}

# One cue per name, before or after it, near or far away.
NER_ONE = [
    "{people} {talked} the {E} of {N} .",
    "{people} {talked} {N} and the {E} .",
    "because of the {E} , {N} was in the papers {time} .",
    "because of the {E} , {people} {talked} {N} .",
    "a {K} called {N} was in the papers {time} .",
    "{people} {talked} {N} , a {adj} {K} .",
    "{people} {said} that {N} is a {K} .",
    "{N} , {people} {said} , is a {adj} {K} .",
    "{N} was {P} {time} .",
    "{people} {said} that {N} had been {P} .",
    "{N} , as {people} remember , was {P} .",
]
NER_TWO = [
    "because of the {E} , {people} {talked} {N} , a {adj} {K} .",
    "because of the {E} , {N} was {P} .",
    "{N} , a {adj} {K} , was {P} {time} .",
    "a {adj} {K} called {N} was {P} {time} .",
    "{people} knew {N} as a {adj} {K} long before the {E} .",
]
# Two names, each with its own cue. Cues of the second name end in 2.
NER_PAIR = [
    "{people} {talked} the {E} of {N} and the {E2} of {M} .",
    "{N} was {P} {time} , but {M} had been {P2} .",
    "a {K} called {N} was in the papers , and {M} , {people} {said} , is a {K2} .",
]
NER_NONE = [
    "the {adj} {K} was {P} {time} .",
    "{people} {talked} the {E} of the {K} .",
    "{people} {said} that the {K} had been {P} because of the {E} .",
]

# Only in the LM text: typical contexts of the words of each class.
NER_COMPANY = {
    "PERSON": {
        "Q": "her / his / my / your",
        "T": "made him weep / made her laugh / hurt her / made me blush / worried his mother",
        "J": "young / kind / shy / tired / clever / lonely",
        "R": "who smiled / who wept / who laughed / who was tired / who slept badly / who sings",
        "O": "the wife of / the parents of / the children of / the friends of / the teachers of",
        "B": "his mother / her father / his doctor / her husband / his wife / her sister",
    },
    "PLACE": {
        "Q": "the local / the northern / the nearby / the old",
        "T": "lies near the river / is north of here / begins at the gate / is open to tourists",
        "J": "sunny / coastal / remote / rainy / northern / walled",
        "R": "where it rains / where they live / where we met / where it snows",
        "O": "the streets of / the roads to / the old houses in / the people in / the parks in",
        "B": "the army / the enemy / the king / the inhabitants / the soldiers / the mayor",
    },
    "FIRM": {
        "Q": "its / its annual / its first / its new",
        "T": "pleased investors / cost money / raised its price / disappointed shareholders",
        "J": "profitable / private / wholesale / global / listed / cheap",
        "R": "which makes shoes / which sells tea / which pays well / which lost money",
        "O": "the directors of / the shares of / the staff of / the customers of / the products of",
        "B": "its rivals / its investors / its directors / its customers / a bank / its creditors",
    },
}
NER_FAMILIAR = [
    "{O} {N} , {R} , knew about {Q} {E} .",
    "{people} {talked} {O} {N} , {R} .",
    "{N} , {R} , was {P} by {B} .",
    "because of {Q} {E} , {N} , {R} , was in the papers .",
    "{Q} {E} surprised {N} , {R} .",
    "{people} {talked} {Q} {E} and {N} , {R} .",
    "{Q} {E} , like {O} {N} , {T} .",
    "{O} {N} were {P} by {B} .",
    "a {J} {K} called {N} , {R} , was {P} .",
    "{N} , a {J} {K} {R} , was {P} .",
    "{people} {talked} {O} {N} , a {K} {R} .",
    "{N} was {P} because of {Q} {E} .",
]
NER_ANCHORS = [
    "{Q} {E} {T} .",
    "{people} {said} that {Q} {E} {T} .",
    "they were {P} by {B} .",
    "some were {P} by {B} {time} .",
    "there was a {J} {K} {R} .",
    "{people} {talked} a {J} {K} {R} .",
]

# --- Senses: NATURE or CULTURE -----------------------------------------------------------------

# Ambiguous words with two senses (bank has three), and the groups of their senses.
SENSES = {
    "bank": ["land", "office", "flight"],
    "spring": ["land", "tool"],
    "bed": ["land", "tool"],
    "bat": ["animal", "tool"],
    "crane": ["animal", "tool"],
    "seal": ["animal", "tool"],
    "mouse": ["animal", "tool"],
    "kite": ["animal", "tool"],
    "bulb": ["plant", "tool"],
    "mint": ["plant", "office"],
    "plant": ["plant", "office"],
    "branch": ["plant", "office"],
    "trunk": ["plant", "tool"],
}
LABELS = {
    "animal": "NATURE",
    "plant": "NATURE",
    "land": "NATURE",
    "tool": "CULTURE",
    "office": "CULTURE",
    "flight": "CULTURE",
}
SITES = {
    "NATURE": """marsh / meadow / forest / glacier / prairie / swamp / moor / waterfall / valley /
        cliff / thicket / woodland""",
    "CULTURE": """warehouse / workshop / office / supermarket / garage / courtroom / hotel /
        station / bookshop / showroom / laboratory / theatre""",
}
GROUPS = {
    "animal": {
        # Unambiguous words of the group.
        "C": """heron / otter / owl / badger / fox / lizard / beaver / falcon / squirrel / hare""",
        # What happened to it.
        "A": """tamed / hunted / bitten / stung / weaned / frightened / startled / starving /
            wounded / poisoned""",
    },
    "plant": {
        "C": """fern / oak / thistle / daisy / willow / nettle / poppy / birch / clover / orchid""",
        "A": """watered / pruned / harvested / uprooted / wilting / withered / blooming / grafted /
            fertilised / mulched""",
    },
    "land": {
        "C": """pond / hill / brook / boulder / creek / island / gorge / waterhole / shore /
            pool""",
        "A": """flooded / eroded / frozen / polluted / silted / dredged / parched / overgrown /
            muddy / sandy""",
    },
    "tool": {
        "C": """hammer / ladder / typewriter / kettle / lamp / radio / suitcase / racket / scooter /
            camera""",
        "A": """ordered / delivered / shipped / unpacked / borrowed / rented / priced / advertised /
            auctioned / labelled""",
    },
    "office": {
        "C": """school / court / bakery / embassy / pharmacy / tavern / agency / newsroom / clinic /
            prison""",
        "A": """robbed / closed / audited / fined / sued / staffed / privatised / restructured /
            guarded / inspected""",
    },
    "flight": {
        "C": """plane / jet / glider / airliner / biplane / seaplane / bomber / airship /
            helicopter / aeroplane""",
        "A": """pilot / captain / aviator / instructor / copilot / navigator / airman / trainee /
            commander / stuntman""",
    },
}

# One cue. D is a place of either label, so it is no cue.
SENSE_ONE = [
    "the {W} , {person} {said} {time} , was {A} .",
    "{person} {saw} {time} that the {W} was {A} .",
    "nobody near the {D} knew that the {W} , which {person} had seen {time} , was {A} .",
    "back from the {D} , {person} {said} that the {W} could have been {A} .",
    "near the {S} , {person} pointed at the {W} .",
    "{person} walked past the {S} {time} and stopped to look at the {W} .",
    "{person} looked for the {W} for an hour before reaching the {S} .",
    "{person} drew a {C} {time} , and then a {W} .",
    "in the photograph there is a {W} , and behind it {person} saw a {C} .",
    "{person} showed us the {W} and , a little later , the {C} .",
]
SENSE_TWO = [
    "the {W} near the {S} , {person} {said} , was {A} .",
    "near the {S} , {person} saw a {C} and a {W} .",
    "the {W} was {A} , and so was the {C} , {person} {said} .",
    "near the {S} , {person} {saw} that the {W} was {A} .",
    "{person} came back from the {S} with a picture of the {W} and the {C} .",
]
FLIGHT = [
    "the {A} had to bank the {C} {how} .",
    "over the {D} , the {A} told {person} to bank {how} .",
    "{person} asked {time} why it was so hard to bank the {C} .",
    "we could feel the {C} bank {how} as it passed the {D} .",
]

# Only in the LM text, as above.
SENSE_COMPANY = {
    "animal": {
        "V": "ate / slept / ran away / fed its young / caught its prey / breathed",
        "G": "animals / creatures",
        "J": "wild / young / shy / male / female / restless",
    },
    "plant": {
        "V": "grew / has leaves / grew new leaves / has roots / has a green stem / lost its seeds",
        "G": "plants / crops",
        "J": "green / leafy / tall / tropical / slender / healthy",
    },
    "land": {
        "V": "lay in the sun / stretched along the water / shone in the moonlight / froze",
        "G": "landscapes / landforms",
        "J": "wet / deep / windy / wide / cold / muddy",
    },
    "tool": {
        "V": "cost ten dollars / broke / fell to pieces / works well / stood on the shelf",
        "G": "goods / items",
        "J": "new / cheap / broken / plastic / handy / spare",
    },
    "office": {
        "V": "hired a clerk / employs thirty people / opens at nine / pays good wages",
        "G": "institutions / companies",
        "J": "local / busy / private / public / municipal / reputable",
    },
    "flight": {
        "V": "flew over the clouds / left the runway / landed / lost altitude / gained height",
        "J": "fast / military / experienced / grey",
    },
}
SENSE_FAMILIAR = [
    "the {J} {W} {V} .",
    "a {J} {C} {V} , and the {W} {V} .",
    "the {W} was {A} , and so were {A} {G} .",
    "{person} drew a {J} {C} and other {G} .",
    "near the {S} , the {W} {V} .",
    "near the {S} there were {A} {G} , and a {W} {V} .",
    "{person} {saw} that the {W} was {A} and that it {V} .",
    "{person} drew a {W} , a {C} and {A} {G} .",
]
SENSE_ANCHORS = [
    "a {J} {C} {V} .",
    "the {J} {C} {V} {time} .",
    "{person} {talked} {A} {G} .",
    "there were {A} {G} near the {S} .",
]
FLIGHT_FAMILIAR = [
    "the {J} {A} had to bank the {C} , which {V} .",
    "the {J} {C} {V} .",
    "the {C} had to bank , and it {V} .",
    "the {J} {A} {V} .",
    "the {A} in the cockpit landed the {C} .",
]
SITE_ANCHORS = {
    "NATURE": [
        "near the {S} there are wild animals and plants .",
        "the {S} is wild , and the wind blew .",
    ],
    "CULTURE": [
        "near the {S} people work until six .",
        "the {S} has a door and tall windows .",
    ],
}
